"""The packaged profiles, one YAML file each."""
