"""Tools beside the daemon: probe and snapshot a camera, describe two pictures, check the installation."""
