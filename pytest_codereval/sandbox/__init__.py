"""Where an agent works: drivers, provisioning, process supervision."""
