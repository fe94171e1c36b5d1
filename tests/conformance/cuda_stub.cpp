// cuda_stub.cpp: the stub's devices, contexts, memory and registrations, and its scripts.

#include "cuda_stub.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdio>

namespace cuda_stub {
namespace {

int device_object;  // its address is the one context there is
// Of the kind that is not made and freed for each thread: ThreadSanitizer does not see what the
// loader does for that.
thread_local void* current __attribute__((tls_model("initial-exec"))) = nullptr;

// Pinning wants to write, unless it is told that the device only reads.
bool is_read_only(void* memory) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  const auto offset = reinterpret_cast<std::uintptr_t>(memory) % 4096;
  return ::madvise(static_cast<std::byte*>(memory) - offset, 4096, kPopulateWrite) != 0 &&
         errno == EFAULT;
}

int take(std::map<std::string, int>& script, const char* call) {
  const auto found = script.find(call);
  if (found == script.end()) return kSuccess;
  const int status = found->second;
  script.erase(found);
  return status;
}

}  // namespace

Stub& stub() {
  static Stub& one = *new Stub;
  return one;
}

int enter(const char* call) {
  const std::lock_guard lock(stub().mutex);
  if (current != &device_object || stub().contexts == 0) return kInvalidContext;
  if (stub().sticky != kSuccess) return stub().sticky;
  return take(stub().refuse, call);
}

int scripted_fault(const char* call) {
  const std::lock_guard lock(stub().mutex);
  return take(stub().fault, call);
}

bool is_memory(std::uint64_t address, std::size_t bytes) {
  auto after = stub().memory.upper_bound(address);
  if (after == stub().memory.begin()) return false;
  const auto& [base, memory] = *--after;
  const std::uint64_t offset = address - base;
  return offset <= memory.size() && bytes <= memory.size() - offset;
}

}  // namespace cuda_stub

using namespace cuda_stub;

extern "C" {

// ---- devices and contexts ------------------------------------------------------------------

int cuInit(unsigned flags) {
  const std::lock_guard lock(stub().mutex);
  stub().started = flags == 0;
  return stub().started ? kSuccess : kInvalidValue;
}
int cuDriverGetVersion(int* version) {
  *version = 12'080;
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return stub().started ? kSuccess : kNotInitialized;
}
int cuDeviceGet(int* device, int ordinal) {
  if (!stub().started) return kNotInitialized;
  if (ordinal != 0) return kInvalidDevice;
  *device = kDevice;
  return kSuccess;
}
int cuDeviceGetName(char* name, int room, int device) {
  if (device != kDevice) return kInvalidDevice;
  std::snprintf(name, static_cast<std::size_t>(room), "simulated: stub of a device");
  return kSuccess;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  *bytes = kMemoryBytes;
  return device == kDevice ? kSuccess : kInvalidDevice;
}
int cuDeviceGetAttribute(int* value, int which, int device) {
  if (device != kDevice) return kInvalidDevice;
  const std::map<int, int> values{{1, kMostThreads},
                                  {2, 1024},
                                  {3, 1024},
                                  {4, 64},
                                  {5, 2147483647},
                                  {6, 65535},
                                  {7, 65535},
                                  {8, kSharedBytes},
                                  {16, 4},
                                  {18, 0},
                                  {40, 2},
                                  {75, stub().capability / 10},
                                  {76, stub().capability % 10},
                                  {97, kSharedOptInBytes}};
  const auto found = values.find(which);
  if (found == values.end()) return kInvalidValue;
  *value = found->second;
  return kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device != kDevice) return kInvalidDevice;
  const std::lock_guard lock(stub().mutex);
  ++stub().contexts;
  *context = &device_object;
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  const std::lock_guard lock(stub().mutex);
  if (device != kDevice || stub().contexts == 0) return kInvalidContext;
  --stub().contexts;
  return kSuccess;
}
int cuCtxGetCurrent(void** context) {
  *context = current;
  return kSuccess;
}
int cuCtxSetCurrent(void* context) {
  current = context;
  return kSuccess;
}
int cuGetErrorName(int status, const char** name) {
  *name = status == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_THE_STUB";
  return kSuccess;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == kOutOfMemory ? "out of memory" : "some other error";
  return kSuccess;
}

// ---- memory --------------------------------------------------------------------------------

int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (const int status = enter("cuMemGetInfo_v2")) return status;
  const std::lock_guard lock(stub().mutex);
  *total = kMemoryBytes;
  *free = kMemoryBytes - stub().allocated;
  return kSuccess;
}
int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  if (const int status = enter("cuMemAlloc_v2")) return status;
  if (bytes == 0) return kInvalidValue;
  const std::lock_guard lock(stub().mutex);
  if (bytes > kMemoryBytes - stub().allocated) return kOutOfMemory;
  std::vector<std::byte> memory(bytes, std::byte{0xcd});
  stub().allocated += bytes;
  *address = reinterpret_cast<std::uint64_t>(memory.data());
  stub().memory.emplace(*address, std::move(memory));
  return kSuccess;
}
int cuMemFree_v2(std::uint64_t address) {
  const int status = enter("cuMemFree_v2");
  if (status == kInvalidContext) return status;
  std::unique_lock lock(stub().mutex);
  stub().changed.wait(lock, [] { return stub().running_kernels == 0; });
  const auto found = stub().memory.find(address);
  if (found == stub().memory.end()) return kInvalidValue;
  stub().allocated -= found->second.size();
  stub().memory.erase(found);
  return status;
}
int cuMemHostRegister_v2(void* memory, std::size_t size, unsigned flags) {
  if (const int status = enter("cuMemHostRegister_v2")) return status;
  const std::lock_guard lock(stub().mutex);
  if ((flags & ~8u) != 1 || size == 0) return kInvalidValue;
  if ((flags & 8u) == 0 && is_read_only(memory)) return kInvalidValue;
  if (stub().refusals > 0) {
    --stub().refusals;
    return kOutOfMemory;
  }
  return stub().registered.emplace(memory, size).second ? kSuccess : kAlreadyRegistered;
}
int cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(stub().mutex);
  if (current != &device_object) return kInvalidContext;
  return stub().registered.erase(memory) == 1 ? kSuccess : kNotRegistered;
}

// ---- for the tests -------------------------------------------------------------------------

int cuda_stub_live() {
  const std::lock_guard lock(stub().mutex);
  return static_cast<int>(stub().registered.size());
}
int cuda_stub_contexts() {
  const std::lock_guard lock(stub().mutex);
  return stub().contexts;
}
/// Streams, events, modules and pieces of memory that there are.
int cuda_stub_objects() {
  const std::lock_guard lock(stub().mutex);
  return stub().streams + stub().events + stub().modules + static_cast<int>(stub().memory.size());
}
void cuda_stub_refuse(int times) {
  const std::lock_guard lock(stub().mutex);
  stub().refusals = times;
}
void* cuda_stub_current() {
  return current;
}
void cuda_stub_set_current(void* context) {
  current = context;
}
/// The next call answers `status`.
void cuda_stub_fail(const char* call, int status) {
  const std::lock_guard lock(stub().mutex);
  stub().refuse[call] = status;
}
/// What the next call gives to a stream ends with `status`, as does all from then on.
void cuda_stub_fault(const char* call, int status) {
  const std::lock_guard lock(stub().mutex);
  stub().fault[call] = status;
}
/// Failures that have not come yet.
int cuda_stub_scripted() {
  const std::lock_guard lock(stub().mutex);
  return static_cast<int>(stub().refuse.size() + stub().fault.size());
}
/// As in a new process.
void cuda_stub_revive() {
  std::unique_lock lock(stub().mutex);
  stub().changed.wait(lock, [] { return stub().pending == 0; });
  stub().sticky = kSuccess;
  stub().refuse.clear();
  stub().fault.clear();
  stub().capability = 90;
  stub().clock_rate = 1.0;
  stub().gate_is_open = false;
  stub().gate_entered = 0;
}
void cuda_stub_open_gate() {
  const std::lock_guard lock(stub().mutex);
  stub().gate_is_open = true;
  stub().changed.notify_all();
}
int cuda_stub_gate_entered() {
  const std::lock_guard lock(stub().mutex);
  return stub().gate_entered;
}
void cuda_stub_capability(int capability) {
  const std::lock_guard lock(stub().mutex);
  stub().capability = capability;
}
void cuda_stub_clock_rate(double rate) {
  const std::lock_guard lock(stub().mutex);
  stub().clock_rate = rate;
}

}  // extern "C"
