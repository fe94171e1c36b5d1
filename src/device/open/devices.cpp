#include "device/open/devices.hpp"

#include <charconv>
#include <climits>
#include <gantry/device.hpp>

#include "core/base/result.hpp"
#include "device/cpu/cpu_device.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/cuda/cuda_registrar.hpp"
#include "device/open/file_ios.hpp"
#include "device/opencl/opencl_device.hpp"

namespace gantry {
namespace {

// ---- cpu -----------------------------------------------------------------------------------

Result<std::shared_ptr<Device>> open_cpu(unsigned, const std::shared_ptr<Engine>& copier) {
  return make_cpu_device({.copier = copier});
}

Result<std::vector<std::string>> list_cpu() {
  GANTRY_ASSIGN(const auto device, make_cpu_device());
  return std::vector<std::string>{device->facts().about};
}

// ---- opencl --------------------------------------------------------------------------------

Result<std::shared_ptr<Device>> open_opencl(unsigned index, const std::shared_ptr<Engine>&) {
  return make_opencl_device({.index = index});
}

Result<std::vector<std::string>> list_opencl() {
  return opencl_devices();
}

// ---- cuda ----------------------------------------------------------------------------------

Result<std::shared_ptr<Device>> open_cuda(unsigned index, const std::shared_ptr<Engine>&) {
  return make_cuda_device(
      {.index = static_cast<int>(std::min(index, unsigned{INT_MAX})),
       .registrar = [](int device) { return make_cuda_registrar({.device = device}); }});
}

Result<std::vector<std::string>> list_cuda() {
  return cuda_devices();
}

// ---- all -----------------------------------------------------------------------------------

struct DeviceMaker {
  std::string_view kind;
  Result<std::shared_ptr<Device>> (*open)(unsigned index, const std::shared_ptr<Engine>& copier);
  Result<std::vector<std::string>> (*list)();  ///< Describes each device, by its index.
  bool is_one;                                 ///< Named without an index.
};

// In the order in which they are reported. Add a new kind here.
constexpr DeviceMaker kDeviceMakers[] = {
    {"cpu", open_cpu, list_cpu, true},
    {"opencl", open_opencl, list_opencl, false},
    {"cuda", open_cuda, list_cuda, false},
};

tl::unexpected<Error> unknown(std::string_view name) {
  std::string kinds;
  for (const DeviceMaker& maker : kDeviceMakers) {
    if (!kinds.empty()) kinds += ", ";
    kinds += maker.is_one ? std::string(maker.kind) : fmt::format("{0} or {0}:NUMBER", maker.kind);
  }
  return fail(Code::not_found, fmt::format("device '{}': there is no such device", name),
              fmt::format("the devices are {}; gantry doctor lists them", kinds));
}

// "kind" or "kind:index"; false: neither.
bool parse_index(std::string_view text, unsigned& index) {
  if (text.empty()) return true;
  text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<std::shared_ptr<Device>> open_device_named(std::string_view name,
                                                  const std::shared_ptr<Engine>& copier) {
  const std::size_t colon = std::min(name.find(':'), name.size());
  for (const DeviceMaker& maker : kDeviceMakers) {
    unsigned index = 0;
    if (maker.kind != name.substr(0, colon)) continue;
    if (maker.is_one ? colon != name.size() : !parse_index(name.substr(colon), index)) break;
    GANTRY_ASSIGN(auto device, maker.open(index, copier));
    GANTRY_ASSIGN(auto file_io, best_file_io());
    device->set_file_io(std::move(file_io));
    return device;
  }
  return unknown(name);
}

std::vector<EngineStatus> list_devices() {
  std::vector<EngineStatus> all;
  for (const DeviceMaker& maker : kDeviceMakers) {
    auto found = maker.list();
    if (!found) {
      all.push_back({std::string(maker.kind), false, found.error().message, found.error().hint});
      continue;
    }
    for (std::size_t i = 0; i < found->size(); ++i)
      all.push_back({maker.is_one ? std::string(maker.kind) : fmt::format("{}:{}", maker.kind, i),
                     true,
                     std::move((*found)[i]),
                     {}});
  }
  return all;
}

}  // namespace gantry
