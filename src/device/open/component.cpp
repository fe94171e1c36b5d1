#include <unistd.h>

#include "core/base/result.hpp"
#include "core/runtime/components.hpp"
#include "device/cuda/cuda_registrar.hpp"
#include "device/dsa/device_queue.hpp"
#include "device/dsa/dsa_engine.hpp"
#include "device/open/devices.hpp"
#include "device/uring/registrar.hpp"

// What the component device adds to the core: the engine dsa, two registrars, devices.
namespace gantry {
namespace {

using enum Move::Kind;

LazyEngine::Facts dsa_facts() {
  return {"dsa", {true, {copy, fill}, 64}};
}

Result<std::shared_ptr<Engine>> make_dsa(const Calibration& calibration) {
  GANTRY_ASSIGN(auto queue, dsa::open_any_queue());
  dsa::DsaOptions options;
  if (calibration.streaming_from > 0) options.streaming_from = calibration.streaming_from;
  return dsa::make_dsa_engine(std::move(queue), options);
}

std::string dsa_text(const Engine& made) {
  return dynamic_cast<const dsa::DsaEngine&>(made).about();
}

// Doctor finds out what is wrong with it.
bool is_dsa_likely() {
  return ::access("/dev/dsa", F_OK) == 0;
}

void add_device() {
  Component& device = *new Component;
  device.engines.push_back({dsa_facts(), make_dsa, dsa_text, is_dsa_likely});
  device.registrars[RegistrarKind::uring] = [](const RegistrarSetup& setup) {
    return make_uring_registrar({setup.limits, setup.ring_descriptor, setup.ring_slots});
  };
  device.registrars[RegistrarKind::cuda] = [](const RegistrarSetup& setup) {
    return make_cuda_registrar({.limits = setup.limits, .device = setup.cuda_device});
  };
  device.devices = {open_device_named, list_devices};
  add_component(device);
}

}  // namespace
}  // namespace gantry

GANTRY_COMPONENT(device, gantry::add_device())
