// cuda_stub.cpp: as much of a CUDA driver as the registrar uses. It registers nothing but keeps
// the driver's rules, and counts; `cuda_stub_*` is for the tests.

#include <cstddef>
#include <map>
#include <mutex>

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3,
              kInvalidDevice = 101, kInvalidContext = 201, kAlreadyRegistered = 712,
              kNotRegistered = 713;

int device_memory;  // its address is the one context there is
std::mutex mutex;
bool started = false;
int contexts = 0;
int refusals = 0;
std::map<void*, std::size_t> live;
thread_local void* current = nullptr;

}  // namespace

extern "C" {

int cuInit(unsigned flags) {
  started = flags == 0;
  return started ? kSuccess : kInvalidValue;
}
int cuDeviceGet(int* device, int ordinal) {
  if (!started) return kNotInitialized;
  if (ordinal != 0) return kInvalidDevice;
  *device = 7;
  return kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device != 7) return kInvalidDevice;
  const std::lock_guard lock(mutex);
  ++contexts;
  *context = &device_memory;
  return kSuccess;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  const std::lock_guard lock(mutex);
  if (device != 7 || contexts == 0) return kInvalidContext;
  --contexts;
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
int cuMemHostRegister_v2(void* memory, std::size_t size, unsigned flags) {
  const std::lock_guard lock(mutex);
  if (current != &device_memory || contexts == 0) return kInvalidContext;
  if (flags != 1 || size == 0) return kInvalidValue;
  if (refusals > 0) {
    --refusals;
    return kOutOfMemory;
  }
  return live.emplace(memory, size).second ? kSuccess : kAlreadyRegistered;
}
int cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(mutex);
  if (current != &device_memory) return kInvalidContext;
  return live.erase(memory) == 1 ? kSuccess : kNotRegistered;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == kOutOfMemory ? "out of memory" : "some other error";
  return kSuccess;
}

int cuda_stub_live() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(live.size());
}
int cuda_stub_contexts() {
  const std::lock_guard lock(mutex);
  return contexts;
}
void cuda_stub_refuse(int times) {
  const std::lock_guard lock(mutex);
  refusals = times;
}
void* cuda_stub_current() {
  return current;
}
void cuda_stub_set_current(void* context) {
  current = context;
}

}  // extern "C"
