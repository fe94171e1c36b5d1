#pragma once  // device_states.hpp: the state behind the handles of gantry/device.hpp.

#include <gantry/device.hpp>
#include <utility>

namespace gantry {

/// Identifies a device: an address to compare, never followed.
using DeviceToken = const void*;

/// Memory of a device; its destructor frees it.
struct BufferState {
  /// `here`: the memory if the host's instructions reach it; `is_visible`: users may see it.
  BufferState(DeviceToken owner, Bytes bytes, ByteSpan here = {}, bool is_visible = true) noexcept
      : device(owner), size(bytes), memory(here), host(is_visible ? here : ByteSpan()) {}
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;
  virtual ~BufferState() = default;

  const DeviceToken device;
  const Bytes size;
  const ByteSpan memory;
  const ByteSpan host;
};

struct KernelState {
  KernelState(DeviceToken owner, std::string called) noexcept
      : device(owner), name(std::move(called)) {}
  KernelState(const KernelState&) = delete;
  KernelState& operator=(const KernelState&) = delete;
  virtual ~KernelState() = default;

  const DeviceToken device;
  const std::string name;
};

struct ProgramState {
  ProgramState() = default;
  ProgramState(const ProgramState&) = delete;
  ProgramState& operator=(const ProgramState&) = delete;
  virtual ~ProgramState() = default;

  /// Errors: `not_found`, `device_lost`, `out_of_memory`.
  [[nodiscard]] virtual Result<std::shared_ptr<const KernelState>> find(
      std::string_view name) const = 0;
  [[nodiscard]] virtual std::string_view log() const noexcept = 0;
};

}  // namespace gantry
