#pragma once  // cuda_stub.hpp: the state of a CUDA driver that there is not.

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

// A small device of the CPU's behind the driver's ABI: memory, streams that run in order on threads
// of their own, events, modules whose kernels are functions of this library. It keeps the driver's
// rules: calls want a current context, memory has to be there, a fault of a kernel is what every
// call answers from then on, freeing memory waits for kernels. `cuda_stub_*` is for the tests.
namespace cuda_stub {

inline constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3,
                     kInvalidImage = 200, kInvalidContext = 201, kNoBinary = 209,
                     kInvalidDevice = 101, kNotFound = 500, kNotReady = 600, kIllegalAddress = 700,
                     kAlreadyRegistered = 712, kNotRegistered = 713;

inline constexpr std::size_t kMemoryBytes = std::size_t{1} << 31;
inline constexpr int kDevice = 7;
inline constexpr int kMostThreads = 1024;
inline constexpr int kSharedBytes = 48 << 10, kSharedOptInBytes = 96 << 10;

struct Stub {
  std::mutex mutex;  // guards all that follows
  std::condition_variable changed;
  bool started = false;
  int contexts = 0;
  int refusals = 0;
  int capability = 90;
  double clock_rate = 1.0;
  std::map<void*, std::size_t> registered;
  std::map<std::uint64_t, std::vector<std::byte>> memory;
  std::size_t allocated = 0;
  int streams = 0, events = 0, modules = 0;
  int running_kernels = 0;
  int pending = 0;  // operations that streams have
  bool gate_is_open = false;
  int gate_entered = 0;
  int sticky = kSuccess;              // what a fault left
  std::map<std::string, int> refuse;  // by call: what its next one answers
  std::map<std::string, int> fault;   // by call: how the next operation that it gave ends
};
Stub& stub();  ///< Never destroyed: threads may be left.

/// What a call answers before it has done anything.
int enter(const char* call);
/// Takes what is scripted for the operation that `call` gives.
int scripted_fault(const char* call);
/// Is that memory of the device's? With the lock held.
bool is_memory(std::uint64_t address, std::size_t bytes);

struct Module {
  std::string text;
  [[nodiscard]] std::string define(const std::string& name) const;
};

struct Launch {
  std::array<unsigned, 3> grid{}, block{};
  std::size_t shared_bytes = 0;
  std::vector<std::vector<std::byte>> parameters;
  const Module* module = nullptr;

  template <class T>
  [[nodiscard]] T value(std::size_t index) const {
    T answer;
    __builtin_memcpy(&answer, parameters[index].data(), sizeof answer);
    return answer;
  }
  template <class T>
  [[nodiscard]] T* pointer(std::size_t index) const {
    return reinterpret_cast<T*>(value<std::uint64_t>(index));
  }
};

struct StubKernel {
  std::vector<std::size_t> parameter_bytes;
  std::vector<std::size_t> pointers;  // which of them are memory
  void (*run)(const Launch& launch);
};
const std::map<std::string, StubKernel>& kernels();
void multiply_i32(const Launch& launch);  ///< cuda_stub_products.cpp: as our own kernels.
void multiply_i64(const Launch& launch);

}  // namespace cuda_stub

struct StreamObject;
namespace cuda_stub {
/// Puts an operation behind what the stream has. It answers how it ended: a fault sticks.
void give(StreamObject* stream, std::function<int()> operation);
}  // namespace cuda_stub
