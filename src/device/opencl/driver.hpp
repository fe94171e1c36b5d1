#pragma once  // opencl/driver.hpp: functions of OpenCL, found at run time. Included after
              // <CL/cl.h>, which a header may not include here.

#include <memory>
#include <optional>
#include <vector>

#include "core/base/result.hpp"
#include "device/operation.hpp"

namespace gantry::opencl {

// clang-format off
#define GANTRY_OPENCL_FUNCTIONS(X) \
  X(clGetPlatformIDs) \
  X(clGetPlatformInfo) \
  X(clGetDeviceIDs) \
  X(clGetDeviceInfo) \
  X(clCreateContext) \
  X(clReleaseContext) \
  X(clCreateCommandQueue) \
  X(clReleaseCommandQueue) \
  X(clCreateBuffer) \
  X(clReleaseMemObject) \
  X(clCreateProgramWithSource) \
  X(clBuildProgram) \
  X(clGetProgramBuildInfo) \
  X(clGetProgramInfo) \
  X(clReleaseProgram) \
  X(clCreateKernel) \
  X(clReleaseKernel) \
  X(clSetKernelArg) \
  X(clGetKernelInfo) \
  X(clGetKernelWorkGroupInfo) \
  X(clEnqueueWriteBuffer) \
  X(clEnqueueReadBuffer) \
  X(clEnqueueCopyBuffer) \
  X(clEnqueueWriteBufferRect) \
  X(clEnqueueReadBufferRect) \
  X(clEnqueueCopyBufferRect) \
  X(clEnqueueFillBuffer) \
  X(clEnqueueNDRangeKernel) \
  X(clEnqueueMigrateMemObjects) \
  X(clEnqueueMapBuffer) \
  X(clEnqueueUnmapMemObject) \
  X(clSetEventCallback) \
  X(clGetEventProfilingInfo) \
  X(clWaitForEvents) \
  X(clRetainEvent) \
  X(clReleaseEvent) \
  X(clFlush) \
  X(clFinish)
// clang-format on

struct Driver {
#define GANTRY_OPENCL_MEMBER(name) decltype(&::name) name = nullptr;
  GANTRY_OPENCL_FUNCTIONS(GANTRY_OPENCL_MEMBER)
#undef GANTRY_OPENCL_MEMBER
};

/// Errors: `unsupported`. The library stays loaded.
[[nodiscard]] Result<Driver> load(const char* library);

struct Found {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  std::string about;
};
/// Lists the platforms in order, and each one's devices. Errors: `unsupported` when there is none.
[[nodiscard]] Result<std::vector<Found>> find_devices(const Driver& driver);

[[nodiscard]] std::string_view name_of(cl_int status) noexcept;
/// The error of an operation that was refused with this status, or ended with it.
[[nodiscard]] Error error_of(cl_int status, Operation::Kind kind);
/// The error of a call on behalf of `device`: "device: what: status".
[[nodiscard]] tl::unexpected<Error> refused(std::string_view device, std::string_view what,
                                            cl_int status, Code code = Code::system);

/// What all objects of one open device share.
struct Context {
  Context(const Driver& functions, std::string called)
      : driver(functions), core(std::make_shared<DeviceCore>(std::move(called))) {}
  ~Context() {
    if (context != nullptr && core->is_here()) driver.clReleaseContext(context);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver driver;
  const std::shared_ptr<DeviceCore> core;
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  std::int64_t clock_offset_ns = 0;  ///< Of the clock of Deadline against the device's.
};

/// An object of a context, which it keeps alive. Not released in a fork's copy, which drivers do
/// not survive.
template <class Handle, cl_int (*Driver::*kRelease)(Handle)>
class Owned {
 public:
  Owned() noexcept = default;
  Owned(std::shared_ptr<const Context> context, Handle handle) noexcept
      : context_(std::move(context)), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != nullptr && context_->core->is_here()) (context_->driver.*kRelease)(handle_);
  }
  [[nodiscard]] Handle get() const noexcept { return handle_; }
  [[nodiscard]] const Context& context() const noexcept { return *context_; }

 private:
  std::shared_ptr<const Context> context_;
  Handle handle_ = nullptr;
};
using OwnedMemory = Owned<cl_mem, &Driver::clReleaseMemObject>;
using OwnedQueue = Owned<cl_command_queue, &Driver::clReleaseCommandQueue>;
using OwnedProgram = Owned<cl_program, &Driver::clReleaseProgram>;
using OwnedKernel = Owned<cl_kernel, &Driver::clReleaseKernel>;
using OwnedEvent = Owned<cl_event, &Driver::clReleaseEvent>;

[[nodiscard]] Result<OwnedQueue> open_queue(const std::shared_ptr<const Context>& context);

/// Waits for an event whose queue was flushed and returns its status. Nothing: it had none by then,
/// or the device was given up meanwhile. The driver's own waits have no limit, and one kernel that
/// never ends may hold up every queue of a process.
[[nodiscard]] std::optional<cl_int> wait_until(const Context& context, cl_event event,
                                               Deadline limit);

}  // namespace gantry::opencl
