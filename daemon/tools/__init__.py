"""What people use beside the daemon: look at a camera, describe two pictures, see whether all is well."""
