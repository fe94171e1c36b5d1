"""What gantry uses of opentelemetry-api, which Debian 12 does not have, with the same names,
arguments and meaning. A span is (trace id, span id, flags)."""
