#include <CL/cl.h>

#include "device/opencl/answer.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace gantry::opencl {
namespace {

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
