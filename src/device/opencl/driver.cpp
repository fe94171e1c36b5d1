#include <CL/cl.h>

#include "device/opencl/driver.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>

#include "core/base/os/block_signals.hpp"

namespace gantry::opencl {
namespace {

constexpr const char* kInstallLoader =
    "install a loader and a driver (apt install ocl-icd-libopencl1 pocl-opencl-icd, or the GPU "
    "vendor's)";

template <class Function>
Result<void> find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function != nullptr) return {};
  return fail(Code::unsupported, fmt::format("opencl: the loader has no {}", name),
              "install a loader of OpenCL 1.2 or later (apt install ocl-icd-libopencl1)");
}

template <class Get>
std::string text_of(Get get) {
  std::size_t size = 0;
  if (get(0, nullptr, &size) != CL_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  if (get(size, text.data(), nullptr) != CL_SUCCESS) return {};
  text.resize(text.find('\0') == text.npos ? size : text.find('\0'));
  return text;
}

std::string device_text(const Driver& driver, cl_device_id device, cl_device_info what) {
  return text_of([&](std::size_t size, void* value, std::size_t* needed) {
    return driver.clGetDeviceInfo(device, what, size, value, needed);
  });
}

bool flag(const Driver& driver, cl_device_id device, cl_device_info what) {
  cl_bool value = CL_FALSE;
  driver.clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value == CL_TRUE;
}

// "OpenCL MAJOR.MINOR ..."
bool is_new_enough(const std::string& version) {
  return version.starts_with("OpenCL ") && version.substr(7, 3) >= "1.2";
}

void add_devices(const Driver& driver, cl_platform_id platform, std::vector<Found>& found) {
  cl_uint count = 0;
  if (driver.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) return;
  std::vector<cl_device_id> devices(count);
  if (driver.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr) !=
      CL_SUCCESS)
    return;
  for (cl_device_id device : devices) {
    const std::string version = device_text(driver, device, CL_DEVICE_VERSION);
    if (!is_new_enough(version) || !flag(driver, device, CL_DEVICE_AVAILABLE) ||
        !flag(driver, device, CL_DEVICE_COMPILER_AVAILABLE))
      continue;
    found.push_back({platform, device,
                     fmt::format("{}, {}", device_text(driver, device, CL_DEVICE_NAME), version)});
  }
}

struct Named {
  cl_int status;
  std::string_view name;
};
constexpr std::array<Named, 25> kNames{{
    {-1, "CL_DEVICE_NOT_FOUND"},
    {-2, "CL_DEVICE_NOT_AVAILABLE"},
    {-3, "CL_COMPILER_NOT_AVAILABLE"},
    {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {-5, "CL_OUT_OF_RESOURCES"},
    {-6, "CL_OUT_OF_HOST_MEMORY"},
    {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
    {-11, "CL_BUILD_PROGRAM_FAILURE"},
    {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {-30, "CL_INVALID_VALUE"},
    {-33, "CL_INVALID_DEVICE"},
    {-34, "CL_INVALID_CONTEXT"},
    {-36, "CL_INVALID_COMMAND_QUEUE"},
    {-38, "CL_INVALID_MEM_OBJECT"},
    {-43, "CL_INVALID_BUILD_OPTIONS"},
    {-48, "CL_INVALID_KERNEL"},
    {-49, "CL_INVALID_ARG_INDEX"},
    {-50, "CL_INVALID_ARG_VALUE"},
    {-51, "CL_INVALID_ARG_SIZE"},
    {-52, "CL_INVALID_KERNEL_ARGS"},
    {-54, "CL_INVALID_WORK_GROUP_SIZE"},
    {-55, "CL_INVALID_WORK_ITEM_SIZE"},
    {-61, "CL_INVALID_BUFFER_SIZE"},
    {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
    {-1001, "no platform"},
}};

Code code_of(cl_int status, Operation::Kind kind) {
  switch (status) {
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_INVALID_CONTEXT:
    case CL_INVALID_DEVICE:
      return Code::device_lost;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
      return Code::device_full;
    case CL_OUT_OF_HOST_MEMORY:
      return Code::out_of_memory;
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
      return Code::aborted;
    case CL_INVALID_WORK_GROUP_SIZE:
    case CL_INVALID_WORK_ITEM_SIZE:
    case CL_INVALID_GLOBAL_WORK_SIZE:
      return Code::invalid_argument;
    default:
      return kind == Operation::Kind::launch ? Code::kernel_fault : Code::system;
  }
}

struct WaitedFor {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<cl_int> status;
};
using WaitedForPointer = std::shared_ptr<WaitedFor>;  // the waiter may have gone before it comes

void CL_CALLBACK heard(cl_event, cl_int status, void* data) {
  const std::unique_ptr<WaitedForPointer> to(static_cast<WaitedForPointer*>(data));
  const std::lock_guard lock((*to)->mutex);
  (*to)->status = status;
  (*to)->came.notify_all();
}

}  // namespace

Result<Driver> load(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return fail(Code::unsupported, fmt::format("opencl: {} cannot be opened", path),
                kInstallLoader);
  Driver driver;
#define GANTRY_OPENCL_FIND(name) GANTRY_TRY(find(library, #name, driver.name));
  GANTRY_OPENCL_FUNCTIONS(GANTRY_OPENCL_FIND)
#undef GANTRY_OPENCL_FIND
  return driver;
}

Result<std::vector<Found>> find_devices(const Driver& driver) {
  cl_uint count = 0;
  if (driver.clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) count = 0;
  std::vector<cl_platform_id> platforms(count);
  if (count != 0) driver.clGetPlatformIDs(count, platforms.data(), nullptr);
  std::vector<Found> found;
  for (cl_platform_id platform : platforms) add_devices(driver, platform, found);
  if (!found.empty()) return found;
  return fail(Code::unsupported,
              fmt::format("opencl: {} platform(s), and no device of OpenCL 1.2 or later with a "
                          "compiler",
                          count),
              kInstallLoader);
}

std::string_view name_of(cl_int status) noexcept {
  for (const Named& known : kNames)
    if (known.status == status) return known.name;
  return "a status of the vendor's";
}

Error error_of(cl_int status, Operation::Kind kind) {
  return {code_of(status, kind), fmt::format("{} ({})", name_of(status), status), {}};
}

tl::unexpected<Error> refused(std::string_view device, std::string_view what, cl_int status,
                              Code code) {
  return fail(code, fmt::format("{}: {}: {} ({})", device, what, name_of(status), status));
}

Result<OwnedQueue> open_queue(const std::shared_ptr<const Context>& context) {
  const BlockSignals blocked;  // of the threads that its driver starts
  cl_int status = CL_SUCCESS;
  OwnedQueue queue(context,
                   context->driver.clCreateCommandQueue(context->context, context->device,
                                                        CL_QUEUE_PROFILING_ENABLE, &status));
  if (status == CL_SUCCESS) return queue;
  return refused(context->core->name, "opening a queue", status);
}

std::optional<cl_int> wait_until(const Context& context, cl_event event, Deadline limit) {
  constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(20);  // at the device
  const auto answer = std::make_shared<WaitedFor>();
  auto handed_over = std::make_unique<WaitedForPointer>(answer);
  if (context.driver.clSetEventCallback(event, CL_COMPLETE, &heard, handed_over.get()) !=
      CL_SUCCESS)
    return context.driver.clWaitForEvents(1, &event);  // a driver that tells nobody
  [[maybe_unused]] const WaitedForPointer* const given = handed_over.release();  // to heard()
  std::unique_lock lock(answer->mutex);
  while (!answer->status && !limit.passed() && context.core->state())
    answer->came.wait_for(lock, std::min(limit.left(), kLook));
  return answer->status;
}

}  // namespace gantry::opencl
