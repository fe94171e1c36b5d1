#pragma once  // gantry/channel/async.hpp: coroutines that wait for messages, on our event loop or
              // any other.

#include <concepts>
#include <coroutine>
#include <gantry/channel.hpp>
#include <gantry/channel/inbox.hpp>
#include <gantry/channel/request.hpp>

namespace gantry {

// ---- coroutines ----------------------------------------------------------------------------

template <class T = void>
class Task;

namespace detail {

/// The common part of all tasks' promises. Nothing throws here: an exception that leaves a
/// coroutine ends the process.
class TaskPromise {
 public:
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  struct Finish {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    [[nodiscard]] std::coroutine_handle<> await_suspend(
        std::coroutine_handle<Promise> done) const noexcept {
      const auto next = done.promise().continuation;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] Finish final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }

  std::coroutine_handle<> continuation;  ///< The coroutine that awaits it.
};

template <class T>
class ValuePromise : public TaskPromise {
 public:
  [[nodiscard]] Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  [[nodiscard]] T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <>
class ValuePromise<void> : public TaskPromise {
 public:
  [[nodiscard]] Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

/// A coroutine that begins when it is awaited or spawned. Move-only. Dropping a suspended task
/// cancels it: it is destroyed with all that it awaits.
template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::ValuePromise<T>;

  Task() noexcept = default;
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// True when it has ended, and for a task without a coroutine.
  [[nodiscard]] bool is_done() const noexcept { return !handle_ || handle_.done(); }
  /// The coroutine, which stays the task's.
  [[nodiscard]] std::coroutine_handle<promise_type> handle() const noexcept { return handle_; }

  // A task can be awaited once.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    handle_.promise().continuation = awaiting;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

template <class T>
Task<T> detail::ValuePromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<ValuePromise<T>>::from_promise(*this));
}
inline Task<void> detail::ValuePromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<ValuePromise<void>>::from_promise(*this));
}

// ---- loops ---------------------------------------------------------------------------------

/// What a loop must offer for the awaitables below: your own loop, or EventLoop.
///   watch    Resumes `waiting` once, on the loop's thread, when `descriptor` is readable
///            (level-triggered: also if it is now), but not from within watch(). Several may wait
///            for the same descriptor; all of them are resumed before the descriptors are looked at
///            again. After an error it is not watched.
///   unwatch  Stops that. Never called after the coroutine was resumed.
template <class Loop>
concept Watcher = requires(Loop& loop, int descriptor, std::coroutine_handle<> waiting) {
  { loop.watch(descriptor, waiting) } -> std::same_as<Result<void>>;
  { loop.unwatch(descriptor, waiting) } noexcept;
};

/// A minimal loop on epoll(7). Used by one thread, except stop(). It uses no CPU while nothing
/// happens. Do not move it once anything waits on it.
class GANTRY_API EventLoop {
 public:
  /// Makes a loop without tasks. Errors: `system` (no descriptor is left).
  [[nodiscard]] static Result<EventLoop> create();
  EventLoop(EventLoop&&) noexcept;
  EventLoop& operator=(EventLoop&&) noexcept;
  /// Destroys what is still suspended. The ends that tasks wait for must live until then.
  ~EventLoop();

  /// Takes the task over; it begins in run().
  void spawn(Task<> task);
  /// Runs until no task is left, or until stop(); may be called again then. Errors: `busy` within
  /// run().
  Result<void> run();
  void stop() noexcept;  ///< Makes run() return before it resumes another task. Any thread.
  [[nodiscard]] std::size_t tasks() const noexcept;  ///< Tasks that have not ended.

  /// For awaitables: resumes `waiting` once, when the descriptor is readable.
  [[nodiscard]] Result<void> watch(int descriptor, std::coroutine_handle<> waiting);
  /// Forgets such a wait.
  void unwatch(int descriptor, std::coroutine_handle<> waiting) noexcept;

  class Impl;

 private:
  explicit EventLoop(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};
static_assert(Watcher<EventLoop>);

// ---- awaitables ----------------------------------------------------------------------------

/// co_await readable(descriptor, loop) waits until the descriptor is readable; an error comes at
/// once.
template <Watcher Loop>
class Readable {
 public:
  /// Waits for nothing until it is awaited.
  Readable(int descriptor, Loop& loop) noexcept : descriptor_(descriptor), loop_(loop) {}
  Readable(const Readable&) = delete;
  Readable& operator=(const Readable&) = delete;
  ~Readable() {
    if (waiting_) loop_.unwatch(descriptor_, waiting_);
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiting) {
    watched_ = loop_.watch(descriptor_, waiting);
    if (!watched_) return false;
    waiting_ = waiting;
    return true;
  }
  [[nodiscard]] Result<void> await_resume() noexcept {
    waiting_ = {};
    return std::move(watched_);
  }

 private:
  int descriptor_;
  Loop& loop_;
  std::coroutine_handle<> waiting_;
  Result<void> watched_;
};
/// Awaits that the descriptor becomes readable: see Readable.
template <Watcher Loop>
[[nodiscard]] Readable<Loop> readable(int descriptor, Loop& loop) noexcept {
  return Readable<Loop>(descriptor, loop);
}

namespace detail {

/// Asks a source that does not wait and says `timed_out` until it has an answer. A source has
///   Value ask();  Result<int> descriptor();  void note_woken();
template <class Source, class Loop>
auto ask_until_answered(Source& source, Loop& loop) -> Task<decltype(source.ask())> {
  using Answer = decltype(source.ask());
  for (;;) {
    const Result<int> descriptor = source.descriptor();
    if (!descriptor) co_return Answer(tl::unexpected(descriptor.error()));
    const Result<void> woken = co_await readable(*descriptor, loop);
    if (!woken) co_return Answer(tl::unexpected(woken.error()));
    source.note_woken();
    Answer answer = source.ask();
    if (answer || answer.error().code != Code::timed_out || source.is_over())
      co_return std::move(answer);
  }
}

/// Takes an answer that is there without suspending. Otherwise a coroutine of its own waits, so
/// that the awaiter sleeps on after a wake-up for nothing. Destroying it ends the wait.
template <class Source, class Loop>
class Awaiting {
 public:
  using Answer = decltype(std::declval<Source&>().ask());
  Awaiting(Source source, Loop& loop) noexcept : source_(std::move(source)), loop_(loop) {}
  Awaiting(const Awaiting&) = delete;
  Awaiting& operator=(const Awaiting&) = delete;

  [[nodiscard]] bool await_ready() {
    // first: from here on the end rings the descriptor
    const Result<int> descriptor = source_.descriptor();
    answer_.emplace(descriptor ? source_.ask() : Answer(tl::unexpected(descriptor.error())));
    return *answer_ || answer_->error().code != Code::timed_out || source_.is_over();
  }
  [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) {
    slow_ = ask_until_answered(source_, loop_);
    return slow_.await_suspend(awaiting);
  }
  [[nodiscard]] Answer await_resume() {
    return slow_.handle() ? slow_.await_resume() : std::move(*answer_);
  }

 private:
  Source source_;
  Loop& loop_;
  std::optional<Answer> answer_;
  Task<Answer> slow_;
};

/// A Consumer or an Inbox.
template <class End>
struct ReceivingEnd {
  End* end;
  auto ask() { return end->receive(Deadline::now()); }
  auto descriptor() { return end->event_descriptor(); }
  void note_woken() const noexcept {}
  [[nodiscard]] bool is_over() const noexcept { return false; }
};
struct ServingEnd {
  Server* end;
  Result<Request> ask() const { return end->next(Deadline::now()); }
  Result<int> descriptor() const { return end->event_descriptor(); }
  void note_woken() const noexcept {}
  [[nodiscard]] bool is_over() const noexcept { return false; }
};
struct ReplyEnd {
  PendingReply* pending;
  Result<Message> ask() {
    const bool was_over = pending->is_over();
    auto answer = pending->wait(Deadline::now());
    over = was_over || pending->is_over();
    return answer;
  }
  Result<int> descriptor() const { return pending->event_descriptor(); }
  void note_woken() const noexcept { pending->note_woken(); }
  [[nodiscard]] bool is_over() const noexcept { return over; }
  bool over = false;
};
struct SentEnd {
  Producer* producer;
  Ticket ticket;
  Result<void> ask() const {
    if (producer->outcome(ticket) == Outcome::pending)
      return tl::unexpected(Error{Code::timed_out, "not yet sent", ""});
    over = true;
    return producer->wait(ticket);
  }
  Result<int> descriptor() const { return producer->sent_descriptor(); }
  void note_woken() const noexcept { producer->note_woken(); }
  [[nodiscard]] bool is_over() const noexcept { return over; }
  mutable bool over = false;
};

}  // namespace detail

// Each awaitable returns what the call of the same meaning returns, but never `timed_out` for want
// of time. The end must outlive the wait. One coroutine at a time may wait for a consumer, an inbox
// or a server; any number may wait for replies and tickets.

/// co_await next(consumer, loop) -> Result<Message>
template <Watcher Loop>
[[nodiscard]] auto next(Consumer& consumer, Loop& loop) {
  return detail::Awaiting<detail::ReceivingEnd<Consumer>, Loop>({&consumer}, loop);
}
/// co_await next(inbox, loop) -> Result<Inbox::Delivery>
template <Watcher Loop>
[[nodiscard]] auto next(Inbox& inbox, Loop& loop) {
  return detail::Awaiting<detail::ReceivingEnd<Inbox>, Loop>({&inbox}, loop);
}
/// co_await next(server, loop) -> Result<Request>
template <Watcher Loop>
[[nodiscard]] auto next(Server& server, Loop& loop) {
  return detail::Awaiting<detail::ServingEnd, Loop>({&server}, loop);
}
/// co_await reply(pending, loop) -> Result<Message>; `timed_out` at the call's own deadline.
template <Watcher Loop>
[[nodiscard]] auto reply(PendingReply& pending, Loop& loop) {
  return detail::Awaiting<detail::ReplyEnd, Loop>({&pending}, loop);
}
/// co_await sent(producer, ticket, loop) -> Result<void>, as Producer::wait().
template <Watcher Loop>
[[nodiscard]] auto sent(Producer& producer, Ticket ticket, Loop& loop) {
  return detail::Awaiting<detail::SentEnd, Loop>({&producer, ticket}, loop);
}

}  // namespace gantry
