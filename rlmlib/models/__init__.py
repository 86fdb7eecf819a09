"""Where text comes from: one small file per engine behind the protocols in base.py."""
