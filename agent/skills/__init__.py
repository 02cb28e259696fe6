"""Skills: how to do a class of task, as folders in the open Agent Skills format."""
