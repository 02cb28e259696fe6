"""Tools the model can call, and the contract they share."""
