// Products beside copies, by engines of their own or by a kernel.
#include <algorithm>
#include <chrono>

#include "../support/system/posix.hpp"
#include "device_product.hpp"

namespace gantry::bench {
namespace {

using Clock = Deadline::Clock;

constexpr int kProductsBeside = 8;
constexpr std::size_t kCopyGroup = 256;

}  // namespace

Result<DeviceEvent> DeviceProduct::copy_once(Neighbour neighbour, DeviceQueue& queue) {
  switch (neighbour) {
    case Neighbour::copy_in:
      return queue.copy_in(in_from_host_, 0, host_in_.bytes());
    case Neighbour::copy_out:
      return queue.copy_out(out_to_host_, 0, host_out_.bytes());
    default:
      return queue.launch(copy_kernel_, {out_to_host_, kernel_to_, std::uint64_t{kCopyBytes / 16}},
                          LaunchRange::linear(kCopyBytes / 16, kCopyGroup));
  }
}

Result<double> DeviceProduct::copy_ns(Neighbour neighbour, DeviceQueue& queue) {
  constexpr int kCopies = 4;
  const auto begin = Clock::now();
  for (int i = 0; i < kCopies; ++i)
    if (auto queued = copy_once(neighbour, queue); !queued) return Unexpected(queued.error());
  if (auto drained = queue.drain(); !drained) return Unexpected(drained.error());
  return ns_between(begin, Clock::now()) / kCopies;
}

Result<DeviceProduct::Events> DeviceProduct::submit_copies(Neighbour neighbour, DeviceQueue& queue,
                                                           double for_ns) {
  const auto each = copy_ns(neighbour, queue);
  if (!each) return Unexpected(each.error());
  Events events;
  for (double ns = 0; ns < for_ns || events.size() < 2; ns += *each) {
    auto event = copy_once(neighbour, queue);
    if (!event) return Unexpected(event.error());
    events.push_back(*std::move(event));
  }
  return events;
}

Result<void> DeviceProduct::compare_copies(Neighbour neighbour) {
  const DeviceBuffer& to = neighbour == Neighbour::kernel_copy ? kernel_to_ : in_from_host_;
  if (neighbour != Neighbour::copy_out) {
    if (auto queued = out_->copy_out(to, 0, host_out_.bytes()); !queued)
      return Unexpected(queued.error());
    if (auto drained = out_->drain(); !drained) return drained;
  }
  if (std::ranges::equal(host_in_.bytes(), host_out_.bytes())) return {};
  return Unexpected({Code::system, "a copy beside a product is wrong", ""});
}

namespace {
struct Window {
  DeviceTiming::Time begin;
  DeviceTiming::Time end;
};

/// Of each copy the part that falls into the window.
Result<double> bytes_within(const Window& window, const std::vector<DeviceEvent>& copies) {
  double bytes = 0;
  for (const DeviceEvent& copy : copies) {
    const auto timing = copy.timing();
    if (!timing) return Unexpected(timing.error());
    const auto begin = std::max(timing->began, window.begin);
    const auto end = std::min(timing->ended, window.end);
    const double whole_ns = std::max(ns_between(timing->began, timing->ended), 1.0);
    if (begin < end) bytes += static_cast<double>(kCopyBytes) * ns_between(begin, end) / whole_ns;
  }
  return bytes;
}
}  // namespace

Result<BesideFigures> DeviceProduct::beside(Neighbour neighbour) {
  const auto alone = in_rows(1);
  if (!alone) return Unexpected(alone.error());
  const double all_ns = kProductsBeside * *alone;
  Events copies;
  const auto add_copies = [&](Neighbour which, DeviceQueue& queue) -> Result<void> {
    auto more = submit_copies(which, queue, 2 * all_ns);  // products may take twice as long
    if (!more) return Unexpected(more.error());
    copies.insert(copies.end(), more->begin(), more->end());
    return {};
  };
  if (auto spoilt = spoil_result(); !spoilt) return Unexpected(spoilt.error());
  Result<void> added;
  const bool is_both = neighbour == Neighbour::both_copies;
  if (neighbour == Neighbour::copy_in || is_both) added = add_copies(Neighbour::copy_in, *in_);
  if (added && (neighbour == Neighbour::copy_out || is_both))
    added = add_copies(Neighbour::copy_out, *out_);
  if (neighbour == Neighbour::kernel_copy) added = add_copies(neighbour, *kernel_queue_);
  Events products;
  for (int i = 0; added && i < kProductsBeside; ++i) {
    auto event = multiply(0, m_, 0, k_);
    if (!event) return Unexpected(event.error());
    products.push_back(*std::move(event));
  }
  for (DeviceQueue* const queue : {compute_.get(), in_.get(), out_.get(), kernel_queue_.get()})
    if (auto drained = queue->drain(); !drained) return Unexpected(drained.error());
  if (!added) return Unexpected(added.error());
  const auto first = products.front().timing();
  const auto last = products.back().timing();
  if (!first || !last) return Unexpected((first ? last : first).error());
  const Window window{first->began, last->ended};
  const auto bytes = bytes_within(window, copies);
  if (!bytes) return Unexpected(bytes.error());
  if (auto same = compare(); !same) return Unexpected(same.error());
  if (neighbour != Neighbour::none)
    if (auto same = compare_copies(neighbour); !same) return Unexpected(same.error());
  const double ns = ns_between(window.begin, window.end);
  return BesideFigures{ns / kProductsBeside, *bytes / ns};
}

}  // namespace gantry::bench
