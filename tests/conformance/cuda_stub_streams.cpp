// cuda_stub_streams.cpp: streams that are threads, and their events.

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "cuda_stub.hpp"

using namespace cuda_stub;

namespace {

/// What the thread and the handle share. Guarded by the stub's lock.
struct Line {
  std::deque<std::function<int()>> operations;
  bool busy = false;
  bool quit = false;
};

void run(const std::shared_ptr<Line>& line) {
  std::unique_lock lock(stub().mutex);
  for (;;) {
    stub().changed.wait(lock, [&] { return line->quit || !line->operations.empty(); });
    if (line->operations.empty()) break;
    auto operation = std::move(line->operations.front());
    line->operations.pop_front();
    line->busy = true;
    const bool is_dead = stub().sticky != kSuccess;
    lock.unlock();
    const int status = is_dead ? kSuccess : operation();
    operation = nullptr;
    lock.lock();
    if (status != kSuccess) stub().sticky = status;
    --stub().pending;
    line->busy = false;
    stub().changed.notify_all();
  }
}

// With the lock held.
double device_ms() {
  static auto last = std::chrono::steady_clock::now();
  static double ms = 0;
  const auto now = std::chrono::steady_clock::now();
  ms += std::chrono::duration<double, std::milli>(now - last).count() * stub().clock_rate;
  last = now;
  return ms;
}

/// Of memory that is there when it is asked for and when it is done.
int transfer(const char* call, std::uint64_t device, std::size_t bytes, StreamObject* stream,
             std::function<void()> move) {
  if (const int status = enter(call)) return status;
  const auto is_there = [device, bytes] {
    const std::lock_guard lock(stub().mutex);
    return is_memory(device, bytes);
  };
  if (!is_there()) return kInvalidValue;
  const int fault = scripted_fault(call);
  give(stream, [=, move = std::move(move)] {
    if (fault != kSuccess) return fault;
    if (!is_there()) return kIllegalAddress;
    move();
    return kSuccess;
  });
  return kSuccess;
}

void* host(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): so it is here
}

}  // namespace

struct StreamObject {
  std::shared_ptr<Line> line = std::make_shared<Line>();
};

struct RowsSide {
  std::size_t x, y;
  int type;  // 1: the host's, 2: the device's
  void* host;
  std::uint64_t device;
  void* array;
  std::size_t pitch;
};
struct RowsCopy {
  RowsSide from, to;
  std::size_t width, height;
};

struct EventState {
  std::uint64_t asked = 0;  // records
  std::uint64_t done = 0;
  double at_ms = 0;
};

/// May go before what it is to mark.
struct EventObject {
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

void cuda_stub::give(StreamObject* stream, std::function<int()> operation) {
  const std::lock_guard lock(stub().mutex);
  stream->line->operations.push_back(std::move(operation));
  ++stub().pending;
  stub().changed.notify_all();
}

extern "C" {

int cuStreamCreate(StreamObject** stream, unsigned flags) {
  if (const int status = enter("cuStreamCreate")) return status;
  if (flags != 1) return kInvalidValue;
  *stream = new StreamObject;
  std::thread([line = (*stream)->line] { run(line); }).detach();
  const std::lock_guard lock(stub().mutex);
  ++stub().streams;
  return kSuccess;
}
int cuStreamSynchronize(StreamObject* stream) {
  if (const int status = enter("cuStreamSynchronize")) return status;
  std::unique_lock lock(stub().mutex);
  stub().changed.wait(lock,
                      [&] { return stream->line->operations.empty() && !stream->line->busy; });
  return stub().sticky;
}
int cuStreamDestroy_v2(StreamObject* stream) {
  const std::lock_guard lock(stub().mutex);
  stream->line->quit = true;  // when it has done all it was given
  stub().changed.notify_all();
  --stub().streams;
  delete stream;
  return kSuccess;
}

int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes,
                         StreamObject* stream) {
  return transfer("cuMemcpyHtoDAsync_v2", to, bytes, stream,
                  [=] { std::memcpy(host(to), from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, StreamObject* stream) {
  return transfer("cuMemcpyDtoHAsync_v2", from, bytes, stream,
                  [=] { std::memcpy(to, host(from), bytes); });
}
int cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes,
                         StreamObject* stream) {
  {
    const std::lock_guard lock(stub().mutex);
    if (!is_memory(from, bytes)) return kInvalidValue;
  }
  return transfer("cuMemcpyDtoDAsync_v2", to, bytes, stream,
                  [=] { std::memcpy(host(to), host(from), bytes); });
}
// Within the device it takes no pitch but such as cuMemAllocPitch() returns.
int cuMemcpy2DAsync_v2(const RowsCopy* rows, StreamObject* stream) {
  const RowsCopy copy = *rows;
  constexpr std::size_t kPitch = 512;
  const bool has_pitch = copy.from.pitch % kPitch == 0 && copy.to.pitch % kPitch == 0;
  const bool is_within = copy.from.type == 2 && copy.to.type == 2;
  if (is_within && !has_pitch) return kInvalidValue;
  if (copy.from.pitch < copy.width || copy.to.pitch < copy.width) return kInvalidValue;
  const auto extent = [&](const RowsSide& side) {
    return (copy.height - 1) * side.pitch + copy.width;
  };
  if (is_within) {
    const std::lock_guard lock(stub().mutex);
    if (!is_memory(copy.from.device, extent(copy.from))) return kInvalidValue;
  }
  const RowsSide& device = copy.to.type == 2 ? copy.to : copy.from;
  return transfer("cuMemcpy2DAsync_v2", device.device, extent(device), stream, [copy] {
    auto* const to =
        static_cast<std::byte*>(copy.to.type == 2 ? host(copy.to.device) : copy.to.host);
    const auto* const from = static_cast<const std::byte*>(
        copy.from.type == 2 ? host(copy.from.device) : copy.from.host);
    for (std::size_t row = 0; row < copy.height; ++row)
      std::memcpy(to + row * copy.to.pitch, from + row * copy.from.pitch, copy.width);
  });
}
int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes,
                    StreamObject* stream) {
  return transfer("cuMemsetD8Async", to, bytes, stream,
                  [=] { std::memset(host(to), value, bytes); });
}

int cuEventCreate(EventObject** event, unsigned) {
  if (const int status = enter("cuEventCreate")) return status;
  *event = new EventObject;
  const std::lock_guard lock(stub().mutex);
  ++stub().events;
  return kSuccess;
}
int cuEventDestroy_v2(EventObject* event) {
  const std::lock_guard lock(stub().mutex);
  --stub().events;
  delete event;
  return kSuccess;
}
int cuEventRecord(EventObject* event, StreamObject* stream) {
  if (const int status = enter("cuEventRecord")) return status;
  {
    const std::lock_guard lock(stub().mutex);
    ++event->state->asked;
  }
  give(stream, [state = event->state] {
    const std::lock_guard lock(stub().mutex);
    state->at_ms = device_ms();
    ++state->done;
    return kSuccess;
  });
  return kSuccess;
}
int cuEventSynchronize(EventObject* event) {
  if (const int status = enter("cuEventSynchronize")) return status;
  std::unique_lock lock(stub().mutex);
  const auto state = event->state;
  stub().changed.wait(lock,
                      [&] { return state->done == state->asked || stub().sticky != kSuccess; });
  return stub().sticky;
}
int cuEventElapsedTime(float* ms, EventObject* from, EventObject* to) {
  if (const int status = enter("cuEventElapsedTime")) return status;
  const std::lock_guard lock(stub().mutex);
  if (from->state->done != from->state->asked || to->state->done != to->state->asked)
    return kNotReady;
  *ms = static_cast<float>(to->state->at_ms - from->state->at_ms);
  return kSuccess;
}

}  // extern "C"
