#pragma once  // bindings/c/handles.hpp: what stands behind the handles of gantry.h.

#include <gantry/gantry.h>

#include <atomic>
#include <gantry/call.hpp>
#include <gantry/channel.hpp>
#include <gantry/runtime.hpp>
#include <gantry/stage.hpp>
#include <memory>
#include <optional>
#include <variant>

namespace gantry::c {

/// What gantry_free() frees. The first base of every handle, so that their addresses are the same.
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  virtual ~Handle() = default;
};

/// A message, and what its handle and its views share. A request has its message within, and so has
/// an item of a queue, whose last segment is the queue's own. One that is looked at is its
/// consumer's.
struct MessageState {
  Message plain;
  std::optional<Consumer::Look> look;
  std::optional<Request> request;
  std::optional<WorkItem> item;
  Sender sender{};
  std::atomic<bool> answered{false};
  [[nodiscard]] const Message& message() const noexcept {
    if (item) return item->message();
    if (look) return *look->message();
    return request ? request->message() : plain;
  }
  [[nodiscard]] std::size_t segments() const noexcept {
    return item ? item->segments() : message().segments();
  }
  /// `index` must be below segments().
  [[nodiscard]] Segment segment(std::size_t index) const noexcept {
    return item ? item->segment(index) : message().segment(index);
  }
};

/// Gives a new handle to the caller.
template <class Struct, class... Arguments>
void hand_out(Struct** into, Arguments&&... arguments) {
  *into = new Struct(std::forward<Arguments>(arguments)...);
}

}  // namespace gantry::c

struct gantry_runtime : gantry::c::Handle {
  gantry_runtime(gantry::Runtime made, std::string folder, int interrupt)
      : runtime(std::move(made)), directory(std::move(folder)), interrupt_descriptor(interrupt) {}
  gantry::Runtime runtime;
  std::string directory;
  int interrupt_descriptor;
};

struct gantry_producer : gantry::c::Handle {
  using End =
      std::variant<gantry::Producer, gantry::StageOutput, gantry::Client, gantry::WorkMember>;
  gantry_producer(End made, std::optional<gantry::Pool> given)
      : end(std::move(made)), pool(std::move(given)) {}
  End end;
  std::optional<gantry::Pool> pool;  // gantry_producer_options.pool
};

struct gantry_consumer : gantry::c::Handle {
  using End = std::variant<gantry::Consumer, gantry::Inbox, gantry::Server, gantry::StageInput,
                           gantry::WorkMember>;
  explicit gantry_consumer(End made) : end(std::move(made)) {}
  End end;
};

struct gantry_queue : gantry::c::Handle {
  explicit gantry_queue(gantry::WorkQueue made) : queue(std::move(made)) {}
  gantry::WorkQueue queue;
};

struct gantry_loan : gantry::c::Handle {
  explicit gantry_loan(gantry::Loan made) : loan(std::move(made)) {}
  gantry::Loan loan;
};

struct gantry_message : gantry::c::Handle {
  explicit gantry_message(std::shared_ptr<gantry::c::MessageState> made) : state(std::move(made)) {}
  std::shared_ptr<gantry::c::MessageState> state;
};

struct gantry_pool : gantry::c::Handle {
  explicit gantry_pool(gantry::Pool made) : pool(std::move(made)) {}
  gantry::Pool pool;
};

struct gantry_block : gantry::c::Handle {
  explicit gantry_block(gantry::Block made) : block(std::move(made)) {}
  gantry::Block block;
};

struct gantry_call : gantry::c::Handle {
  explicit gantry_call(gantry::PendingReply made) : pending(std::move(made)) {}
  gantry::PendingReply pending;
};
