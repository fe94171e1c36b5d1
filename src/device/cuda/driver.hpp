#pragma once  // cuda/driver.hpp: functions of CUDA's driver and the meaning of their answers;
              // declared here by its ABI, so that no toolkit is needed.

#include <dlfcn.h>

#include <gantry/types.hpp>
#include <optional>
#include <string>

#include "device/operation.hpp"

namespace gantry::cuda {

template <class Function>
bool find(void* library, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// What `load` makes of the file at `path`, or of the first of `names` with which it can; null ends
/// those. Files stay loaded.
template <class Library>
std::optional<Library> load_first(const char* path, const char* const* names,
                                  std::optional<Library> (*load)(const char* file)) {
  if (path != nullptr) return load(path);
  for (; *names != nullptr; ++names)
    if (auto loaded = load(*names)) return loaded;
  return std::nullopt;
}

using Status = int;
using Ordinal = int;  // CUdevice
using Address = std::uint64_t;
using ContextHandle = struct ContextObject*;
using StreamHandle = struct StreamObject*;
using EventHandle = struct EventObject*;
using ModuleHandle = struct ModuleObject*;
using FunctionHandle = struct FunctionObject*;

inline constexpr unsigned kStreamNonBlocking = 1;  // it does not wait for the default stream
inline constexpr unsigned kEventBlocking = 1;      // waiting for it sleeps

/// For cuDeviceGetAttribute().
enum class Attribute : int {
  max_threads_per_block = 1,
  max_block_x = 2,
  max_grid_x = 5,
  shared_bytes = 8,
  multiprocessors = 16,
  integrated = 18,
  copy_engines = 40,
  compute_major = 75,
  compute_minor = 76,
  shared_bytes_opt_in = 97,
};

/// For cuFuncGetAttribute() and cuFuncSetAttribute().
enum class FunctionAttribute : int { max_threads_per_block = 0, static_shared = 1, dynamic = 8 };

enum class MemoryType : int { host = 1, device = 2 };

/// CUDA_MEMCPY2D of the second version: one side of a copy of rows, twice, and its shape.
struct RowsSide {
  std::size_t x_bytes = 0;
  std::size_t y = 0;
  MemoryType type = MemoryType::device;
  const void* host = nullptr;  // written to where it is the destination
  Address device = 0;
  void* array = nullptr;
  std::size_t pitch_bytes = 0;
};
struct RowsCopy {
  RowsSide from;
  RowsSide to;
  std::size_t width_bytes = 0;
  std::size_t height = 0;
};
static_assert(sizeof(RowsCopy) == 128);

/// For cuModuleLoadDataEx(): where its compiler writes to.
enum class JitOption : int { error_log = 5, error_log_bytes = 6 };

// Name of the member, name of the symbol, parameters. The symbol's version is the one with these
// arguments; it stays when newer ones come.
// clang-format off
#define GANTRY_CUDA_FUNCTIONS(X) \
  X(init, "cuInit", (unsigned flags)) \
  X(driver_version, "cuDriverGetVersion", (int* version)) \
  X(error_name, "cuGetErrorName", (Status status, const char** name)) \
  X(error_string, "cuGetErrorString", (Status status, const char** text)) \
  X(device_count, "cuDeviceGetCount", (int* count)) \
  X(device_get, "cuDeviceGet", (Ordinal* device, int ordinal)) \
  X(device_name, "cuDeviceGetName", (char* name, int room, Ordinal device)) \
  X(device_memory, "cuDeviceTotalMem_v2", (std::size_t* bytes, Ordinal device)) \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, Attribute which, Ordinal device)) \
  X(retain, "cuDevicePrimaryCtxRetain", (ContextHandle* context, Ordinal device)) \
  X(release, "cuDevicePrimaryCtxRelease_v2", (Ordinal device)) \
  X(get_current, "cuCtxGetCurrent", (ContextHandle* context)) \
  X(set_current, "cuCtxSetCurrent", (ContextHandle context)) \
  X(memory_info, "cuMemGetInfo_v2", (std::size_t* free, std::size_t* total)) \
  X(allocate, "cuMemAlloc_v2", (Address* memory, std::size_t bytes)) \
  X(free, "cuMemFree_v2", (Address memory)) \
  X(host_register, "cuMemHostRegister_v2", (void* memory, std::size_t bytes, unsigned flags)) \
  X(host_unregister, "cuMemHostUnregister", (void* memory)) \
  X(copy_in, "cuMemcpyHtoDAsync_v2", (Address to, const void* from, std::size_t bytes, StreamHandle stream)) \
  X(copy_out, "cuMemcpyDtoHAsync_v2", (void* to, Address from, std::size_t bytes, StreamHandle stream)) \
  X(copy, "cuMemcpyDtoDAsync_v2", (Address to, Address from, std::size_t bytes, StreamHandle stream)) \
  X(copy_rows, "cuMemcpy2DAsync_v2", (const RowsCopy* copy, StreamHandle stream)) \
  X(fill, "cuMemsetD8Async", (Address to, unsigned char value, std::size_t bytes, StreamHandle stream)) \
  X(stream_create, "cuStreamCreate", (StreamHandle* stream, unsigned flags)) \
  X(stream_destroy, "cuStreamDestroy_v2", (StreamHandle stream)) \
  X(stream_synchronize, "cuStreamSynchronize", (StreamHandle stream)) \
  X(event_create, "cuEventCreate", (EventHandle* event, unsigned flags)) \
  X(event_destroy, "cuEventDestroy_v2", (EventHandle event)) \
  X(event_record, "cuEventRecord", (EventHandle event, StreamHandle stream)) \
  X(event_synchronize, "cuEventSynchronize", (EventHandle event)) \
  X(event_elapsed, "cuEventElapsedTime", (float* ms, EventHandle from, EventHandle to)) \
  X(module_load, "cuModuleLoadDataEx", (ModuleHandle* module, const void* image, unsigned options, JitOption* names, void** values)) \
  X(module_unload, "cuModuleUnload", (ModuleHandle module)) \
  X(module_function, "cuModuleGetFunction", (FunctionHandle* function, ModuleHandle module, const char* name)) \
  X(function_attribute, "cuFuncGetAttribute", (int* value, FunctionAttribute which, FunctionHandle function)) \
  X(set_function_attribute, "cuFuncSetAttribute", (FunctionHandle function, FunctionAttribute which, int value)) \
  X(launch, "cuLaunchKernel", (FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** parameters, void** extra))

// From CUDA 12.4 on: a kernel's parameters, and a module's kernels. Null in older drivers.
#define GANTRY_CUDA_LATER_FUNCTIONS(X) \
  X(parameter_info, "cuFuncGetParamInfo", (FunctionHandle function, std::size_t index, std::size_t* offset, std::size_t* bytes)) \
  X(function_name, "cuFuncGetName", (const char** name, FunctionHandle function)) \
  X(function_count, "cuModuleGetFunctionCount", (unsigned* count, ModuleHandle module)) \
  X(functions, "cuModuleEnumerateFunctions", (FunctionHandle* functions, unsigned room, ModuleHandle module))
// clang-format on

struct Driver {
#define GANTRY_CUDA_MEMBER(member, symbol, parameters) Status(*member) parameters = nullptr;
  GANTRY_CUDA_FUNCTIONS(GANTRY_CUDA_MEMBER)
  GANTRY_CUDA_LATER_FUNCTIONS(GANTRY_CUDA_MEMBER)
#undef GANTRY_CUDA_MEMBER
};

/// Errors: `unsupported`, with what to install. The library stays loaded: drivers do not like to be
/// unloaded. Starts nothing.
[[nodiscard]] Result<Driver> load(const char* library);

/// Starts the driver and counts its devices; at least one. Errors: `unsupported`.
[[nodiscard]] Result<int> start(const Driver& driver);

inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNoDevice = 100;
inline constexpr Status kNotFound = 500;
inline constexpr Status kLaunchFailed = 719;
inline constexpr Status kNotSupported = 801;

/// "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered (700)".
[[nodiscard]] std::string name_of(const Driver& driver, Status status);

/// True if a kernel did something that ends its context: every later call answers the same, for as
/// long as the process lives.
[[nodiscard]] bool is_fault(Status status) noexcept;

/// The code of a call that is not a kernel's end.
[[nodiscard]] Code code_of(Status status) noexcept;

/// The error of a call on behalf of `device`: "device: what: status".
[[nodiscard]] tl::unexpected<Error> refused(const Driver& driver, std::string_view device,
                                            std::string_view what, Status status);

}  // namespace gantry::cuda
