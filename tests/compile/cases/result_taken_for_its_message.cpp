// refused readably: conversion from .*Result<gantry::Message>|no viable conversion from .*Result
#include <gantry/gantry.hpp>

using namespace gantry;  // NOLINT: a case, not a header
void receive(Consumer& in) {
  Message message = in.receive();
}
