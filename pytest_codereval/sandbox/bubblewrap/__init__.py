"""The `bubblewrap` driver: namespaces of Linux, without a daemon and without an image."""
