#include <poll.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <thread>

#include "core/base/event.hpp"
#include "core/base/moved_from.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/os/fork_error.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/wait.hpp"
#include "core/channel/queue/item_batch.hpp"
#include "core/channel/queue/lost_items.hpp"
#include "core/channel/queue/queue_protocol.hpp"
#include "core/channel/queue/waiting_line.hpp"
#include "core/channel/queue/work_ledger.hpp"
#include "core/channel/queue/work_questions.hpp"
#include "core/channel/rpc/server.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kHere = ~std::uint64_t{0};  // as a member: this process, without one
constexpr std::size_t kLooksOfTurn = 64;            // at either end, before items are handed out
constexpr std::uint64_t kTurnsOfReport = 64;
constexpr std::uint64_t kTurnsOfQuestion = 16;    // while items come without end
constexpr std::chrono::seconds kMostExpected{5};  // that finish() waits for a handshake
constexpr Bytes kMostUnheard = Bytes{64} << 10;   // of copies that acknowledgements would free
// Requests of one member that wait here: those in flight, and others that it gave up.
constexpr std::size_t kMostWaiting = 4 * Client::kMaxCalls;

Result<void> check_queue(std::string_view name, const WorkQueueOptions& options) {
  GANTRY_TRY(check_channel_name(name));
  if (const unsigned slots = options.replies.slots; slots == 0 || slots > PayloadOptions::kMaxSlots)
    return fail(Code::invalid_argument, fmt::format("queue '{}': {} slots", name, slots),
                fmt::format("use 1 to {}", PayloadOptions::kMaxSlots));
  if (options.replies.as)
    return fail(
        Code::invalid_argument,
        fmt::format("queue '{}': replies.as is {}, but items are handed on as they were put", name,
                    options.replies.as->text()),
        "set WorkMemberOptions::as of those who put: it converts in their copy");
  return {};
}

}  // namespace

/// The dispatcher: one thread has all but the counters and the wish to finish. An acknowledgement
/// wakes nobody for whom it changes nothing:
//   I3  What lies in a member's ring and did not ring is an acknowledgement (urgency_of()).
//   I4  A turn ends with all heard that it needs (needs_all()), or with the dispatcher rung; so
//       while everybody sleeps, nobody waits for what I3 speaks of: wait_until_done(), finish(), a
//       report, a putter whose slot an item in hand keeps, memory beyond kMostUnheard.
//   I5  A wish of another thread's is there before the dispatcher is rung for it.
class GANTRY_LOCAL WorkQueue::Impl {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Impl>> make(std::string_view name,
                                                          const WorkQueueOptions& options,
                                                          std::shared_ptr<Engine> engine);
  Impl(std::string_view name, const WorkQueueOptions& options)
      : name_(name),
        options_(options),
        ledger_(options.most_tries),
        questions_(ledger_, options.most_items) {}
  ~Impl() {
    stop();
    if (server_ != nullptr) server_->shut_down();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void finish() noexcept;
  [[nodiscard]] Result<void> wait_until_done(Deadline deadline);
  [[nodiscard]] WorkQueueReport report();
  [[nodiscard]] Result<std::size_t> put_here(std::span<const ConstByteSpan> items);
  [[nodiscard]] Result<std::vector<WorkItem>> take_here(std::size_t most, Deadline deadline,
                                                        int interrupt);
  void stop() noexcept;
  [[nodiscard]] bool is_ours() const noexcept { return fork_guard_.is_this(); }

 private:
  using Member = WorkLedger::Member;
  struct Wishes {
    bool finish = false;
    bool stop = false;
    unsigned done = 0;  // threads in wait_until_done()
  };
  struct Leaving {
    Member member = 0;
    RequestName request;
    bool gave_up = false;
  };

  [[nodiscard]] Result<void> open(std::shared_ptr<Engine> engine);
  void run();
  [[nodiscard]] Result<void> serve();
  /// The thread of this process that waits in take_here(), before all members that ask.
  struct Here {
    bool waits = false;   // and gets the first items, or is sent away
    bool sleeps = false;  // and is rung when that has happened
    bool is_rung = false;
    std::size_t most = 1;
    std::vector<WorkItem> items;
  };

  /// The dispatcher's thread and those of put_here() have their turns in the order of their coming.
  [[nodiscard]] std::unique_lock<std::mutex> my_turn();
  template <class Work>
  [[nodiscard]] auto in_turn(Work work) -> decltype(work());
  void end_with(const Error& why);
  [[nodiscard]] Result<std::size_t> put_some_here(std::span<const ConstByteSpan> items);
  [[nodiscard]] Result<std::size_t> look(bool is_asked = false);
  [[nodiscard]] bool needs_all() const;
  [[nodiscard]] bool turn_needs_all() const;  // not counting other threads' wishes
  [[nodiscard]] bool hears_enough() const { return hears_all_ || !needs_all(); }  // I4
  [[nodiscard]] Result<bool> take_in(bool is_asked = false);
  void hand_out_all();
  void end_wait_here() noexcept;
  [[nodiscard]] std::vector<WorkItem> take_first(std::size_t most);  // as far as they are small
  [[nodiscard]] Result<std::vector<WorkItem>> wait_here(Deadline deadline, int interrupt);
  void show_inbox_to_dispatcher(bool is_shown) const noexcept;
  void take_request(Request request);
  void take(Inbox::Delivery delivery);
  void take_batch(Member member, Message message);
  void take_note(Member member, const MessageInfo& info);
  void give_up(Member member, std::uint64_t request);
  void part(const Departure& departure);
  void answer(bool has_all, bool must);  // has all that was sent before
  void leave_lines();
  void close_unless(bool is_expecting);
  [[nodiscard]] bool is_rung() const;
  void sleep() const;  // what rang stop_event_ is looked for afterwards
  [[nodiscard]] WorkQueueReport make_report() const;
  void publish_report();
  [[nodiscard]] Wishes wishes_now() const;

  const ForkGuard fork_guard_;
  const std::string name_;
  const WorkQueueOptions options_;
  Fd stop_event_;
  Fd here_event_;
  Fd rung_;  // an epoll: stop_event_, and the inbox while no thread waits in take_here()
  std::shared_ptr<Server::Impl> server_;
  std::thread thread_;

  // Of whoever has its turn.
  std::mutex waiting_here_;  // held while waiting in take_here(), before next_turn_
  std::mutex next_turn_;     // held while waiting for turn_
  std::mutex turn_;          // guards what follows, and the use of server_
  bool has_ended_ = false;
  std::optional<Error> failed_;  // the turn of another thread: the dispatcher ends with it
  WorkLedger ledger_;
  WaitingLine asking_;
  WorkQuestions questions_;
  Here here_;
  bool hears_all_ = true;         // in the newest look
  std::vector<Leaving> leaving_;  // lines, when they have been taken in
  std::optional<Deadline> finishes_by_;
  bool is_closed_ = false;  // what is put from now on is dropped

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  WorkQueueReport report_;
  std::uint64_t reports_ = 0;
  Wishes wishes_;
  std::optional<Error> why_ended_;
  LostItems lost_;
};

Result<std::shared_ptr<WorkQueue::Impl>> WorkQueue::Impl::make(std::string_view name,
                                                               const WorkQueueOptions& options,
                                                               std::shared_ptr<Engine> engine) {
  GANTRY_TRY(check_queue(name, options));
  auto impl = std::make_shared<Impl>(name, options);
  GANTRY_TRY(impl->open(std::move(engine)));
  GANTRY_ASSIGN(impl->thread_, start_thread(fmt::format("the thread of queue '{}'", name),
                                            [queue = impl.get()] { queue->run(); }));
  return impl;
}

Result<void> WorkQueue::Impl::open(std::shared_ptr<Engine> engine) {
  GANTRY_ASSIGN(stop_event_, make_event());
  GANTRY_ASSIGN(here_event_, make_event());
  ServerOptions served;
  served.channel = options_.channel;
  served.channel.interrupt_descriptor = -1;  // no turn waits for a member
  served.replies = options_.replies;
  served.total = options_.total;
  served.clients = options_.members;
  GANTRY_ASSIGN(
      server_,
      Server::Impl::make(name_, served, std::move(engine),
                         {.request = [this](Request request) { take_request(std::move(request)); },
                          .post = [this](Inbox::Delivery one) { take(std::move(one)); },
                          .departure = [this](const Departure& gone) { part(gone); }}));
  GANTRY_ASSIGN(rung_, make_epoll({stop_event_.get(), server_->event_descriptor()}));
  return {};
}

// ---- the thread ----------------------------------------------------------------------------

void WorkQueue::Impl::run() {
  const auto ran = guarded([&] { return serve(); });
  const Error ended{Code::peer_gone, fmt::format("queue '{}': it has ended", name_), {}};
  const auto turn = my_turn();
  has_ended_ = true;
  end_wait_here();
  // A caller amid its handshake may have kept the input open: it is not waited for any more.
  if (ran && ledger_.is_empty() && (is_closed_ || wishes_now().finish)) {
    asking_.refuse_all({Code::closed, fmt::format("queue '{}': it is finished", name_), {}});
    server_->shut_down(Code::closed);
  }
  asking_.refuse_all(ended);
  questions_.refuse_all(ended);
  const std::lock_guard lock(mutex_);
  why_ended_ =
      ran ? Error{Code::closed, fmt::format("queue '{}': it was dropped", name_), {}} : ran.error();
  changed_.notify_all();
}

Result<void> WorkQueue::Impl::serve() {
  for (std::uint64_t turn = 1;; ++turn) {
    const Wishes wishes = wishes_now();
    if (wishes.stop) return {};
    auto mine = my_turn();
    if (failed_) return tl::unexpected(*failed_);
    const bool is_expecting =
        server_->inbox().is_expecting();  // after the wishes, before the looks
    GANTRY_ASSIGN(const std::size_t found, look());
    if (wishes.finish) close_unless(is_expecting || found == kLooksOfTurn);
    hand_out_all();
    if ((questions_.has_some() || !leaving_.empty()) && hears_enough())
      answer(found < kLooksOfTurn && !is_rung(), turn % kTurnsOfQuestion == 0);
    if (is_closed_ && ledger_.is_empty()) end_wait_here();
    const bool is_over = is_closed_ && ledger_.is_empty() && !asking_.is_empty();
    // A turn that did not hear of finish() publishes none: wait_until_done() counts later ones.
    if ((found == 0 && hears_enough()) || is_over || turn % kTurnsOfReport == 0) publish_report();
    if (is_over)
      asking_.refuse_all({Code::closed, fmt::format("queue '{}': it is finished", name_), {}});
    const bool may_close = wishes.finish && !is_closed_ && !server_->inbox().is_expecting();
    const bool may_sleep = found == 0 && !may_close && hears_enough();
    mine.unlock();
    if (may_sleep) sleep();
  }
}

/// Takes in what has come, at most kLooksOfTurn messages: how many.
Result<std::size_t> WorkQueue::Impl::look(bool is_asked) {
  hears_all_ = is_asked || needs_all();
  static_cast<void>(server_->hear(hears_all_ ? Hears::all : Hears::urgent));
  std::size_t found = 0;
  for (bool finds = true; finds && found < kLooksOfTurn; found += finds ? 1 : 0) {
    GANTRY_ASSIGN(finds, server_->take_one());
  }
  return found;
}

bool WorkQueue::Impl::needs_all() const {
  const Wishes wishes = wishes_now();
  return wishes.finish || wishes.done != 0 || turn_needs_all();
}
bool WorkQueue::Impl::turn_needs_all() const {
  return questions_.await_acknowledgements() || ledger_.frees_room(kMostUnheard) ||
         ledger_.copied() >= options_.most_copied;
}

std::unique_lock<std::mutex> WorkQueue::Impl::my_turn() {
  const std::lock_guard next(next_turn_);
  return std::unique_lock(turn_);
}

void WorkQueue::Impl::answer(bool has_all, bool must) {
  if (has_all || must) questions_.answer_all(make_report());
  if (!has_all || leaving_.empty()) return;
  leave_lines();  // with nothing: there was none for them
  questions_.answer_all(make_report());
}

// Items that were put before finish() lay there when this turn began, unless the turn did not reach
// them, or the acceptor's thread had not ended their member's handshake. A caller that hangs, or
// puts without end, is not waited for.
void WorkQueue::Impl::close_unless(bool is_expecting) {
  if (!finishes_by_) finishes_by_ = Deadline::after(kMostExpected);
  if (!is_expecting || finishes_by_->passed()) is_closed_ = true;
}

bool WorkQueue::Impl::is_rung() const {
  return sleep_on({stop_event_.get(), server_->event_descriptor()}, std::chrono::seconds(0)) != 0;
}

void WorkQueue::Impl::sleep() const {
  std::array<epoll_event, 2> events;  // NOLINT: filled by the kernel
  const int count = ::epoll_wait(rung_.get(), events.data(), events.size(), -1);
  for (int i = 0; i < count; ++i)
    if (events[static_cast<std::size_t>(i)].data.fd == stop_event_.get()) drain(stop_event_.get());
}

// A thread that waits here is before all members that ask: it was let in when none did.
void WorkQueue::Impl::hand_out_all() {
  if (here_.waits && ledger_.has_waiting()) {
    here_.items = take_first(here_.most);
    end_wait_here();
  }
  hand_out(ledger_, asking_);
}

void WorkQueue::Impl::end_wait_here() noexcept {
  if (!std::exchange(here_.waits, false) || !here_.sleeps) return;
  here_.is_rung = true;
  ring(here_event_.get());
}

void WorkQueue::Impl::take_request(Request request) {
  const auto question = static_cast<WorkQuestion>(request.message().info().type);
  const Member member = request.sender().id;
  if (asking_.count(member) + questions_.count(member) >= kMostWaiting)
    return static_cast<void>(
        request.refuse({Code::busy, "too many requests of this member wait", {}}));
  if (question == WorkQuestion::item)
    asking_.join(std::move(request));
  else
    questions_.take(question, std::move(request));
}

void WorkQueue::Impl::take(Inbox::Delivery delivery) {
  const MessageInfo info = delivery.message.info();
  const Member member = delivery.sender.id;
  if (static_cast<RpcKind>(info.user) == RpcKind::note) return take_note(member, info);
  if (delivery.message.segments() < 2) return;  // not one of our members
  if (static_cast<PostForm>(info.type) == PostForm::batch)
    return take_batch(member, std::move(delivery.message));
  questions_.note_put(member);
  if (is_closed_) return ledger_.drop_put();
  ledger_.put(std::make_shared<WorkPayload>(std::move(delivery.message),
                                            ledger_.copied() < options_.most_copied));
}

// What is not a batch is not one of our members'.
void WorkQueue::Impl::take_batch(Member member, Message message) {
  if (message.segments() != 2) return;
  const auto whole = std::make_shared<const Message>(std::move(message));
  const ConstByteSpan bytes = whole->segment(0).bytes;
  const auto items = ItemBatch::read(bytes, whole->segment(1).bytes, WorkMember::kMostBatched);
  if (!items) return;
  const bool is_copied = ledger_.copied() + items->size() <= options_.most_copied;
  std::shared_ptr<const void> owner = whole;
  const std::byte* at = bytes.data();
  if (is_copied) {
    auto copy = std::make_shared<std::vector<std::byte>>();
    copy->reserve(bytes.size() + 1);  // an empty item has an address
    copy->assign(bytes.begin(), bytes.end());
    at = copy->data();
    owner = std::move(copy);
  }
  for (const BatchItem& item : *items) {
    questions_.note_put(member);
    if (is_closed_)
      ledger_.drop_put();
    else
      ledger_.put(
          std::make_shared<WorkPayload>(owner, ConstByteSpan(at, item.bytes.size()), is_copied));
    at += item.bytes.size();
  }
}

// Nothing of what a member says reaches beyond what it holds itself.
void WorkQueue::Impl::take_note(Member member, const MessageInfo& info) {
  const auto what = static_cast<ToQueue>(info.type);
  switch (what) {
    case ToQueue::acknowledged:
      return ledger_.acknowledge(member, info.correlation);
    case ToQueue::given_back:
      return ledger_.take_back(member, info.correlation);
    case ToQueue::batch_done:
      return ledger_.acknowledge_batch(member, info.correlation);
    case ToQueue::batch_seen:
      return ledger_.note_seen(member, info.correlation);
    case ToQueue::gave_up:
      if (const RequestName name = RequestName::of(info.correlation);
          name.question == WorkQuestion::item)
        return give_up(member, name.number);
      [[fallthrough]];
    case ToQueue::left_line:
      if (static_cast<std::size_t>(std::ranges::count(leaving_, member, &Leaving::member)) >=
          kMostWaiting)
        return;
      leaving_.push_back({member, RequestName::of(info.correlation), what == ToQueue::gave_up});
      return;
    case ToQueue::place_back:
      questions_.take_place_back(member);
  }
}

// At once: what comes back is before the others, also for the request that the member makes next.
void WorkQueue::Impl::give_up(Member member, std::uint64_t request) {
  if (!asking_.leave(member, request)) ledger_.not_read(member, request);
}

void WorkQueue::Impl::part(const Departure& departure) {
  const Member member = departure.sender.id;
  ledger_.take_all_back(member);
  if (const std::lock_guard lock(mutex_); lost_.note(name_, departure))
    ledger_.drop_put();  // one at least
  questions_.note_departure(member);
  std::erase_if(leaving_, [&](const Leaving& leaving) { return leaving.member == member; });
}

void WorkQueue::Impl::leave_lines() {
  for (const auto& [member, request, gave_up] : leaving_) {
    if (request.question == WorkQuestion::place)
      questions_.leave_place(member, request.number, gave_up);
    else if (request.question == WorkQuestion::item)
      static_cast<void>(asking_.leave(member, request.number));
  }
  leaving_.clear();
}

WorkQueueReport WorkQueue::Impl::make_report() const {
  WorkQueueReport report;
  ledger_.report_to(report);
  report.members = server_->inbox().senders().size();
  report.waiting_workers = asking_.size() + (here_.waits ? 1 : 0);
  return report;
}

void WorkQueue::Impl::publish_report() {
  const WorkQueueReport report = make_report();
  const std::lock_guard lock(mutex_);
  report_ = report;
  ++reports_;
  changed_.notify_all();
}

WorkQueue::Impl::Wishes WorkQueue::Impl::wishes_now() const {
  const std::lock_guard lock(mutex_);
  return wishes_;
}

void WorkQueue::Impl::finish() noexcept {
  {
    const std::lock_guard lock(mutex_);
    wishes_.finish = true;
  }
  ring(stop_event_.get());
}

void WorkQueue::Impl::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    wishes_.stop = true;
  }
  ring(stop_event_.get());
  thread_.join();
}

WorkQueueReport WorkQueue::Impl::report() {
  const auto now = in_turn([&]() -> Result<WorkQueueReport> {
    GANTRY_TRY(take_in(true));
    return make_report();
  });
  const std::lock_guard lock(mutex_);
  return now ? *now : report_;  // the last one, if it has ended
}

// ---- items of this process: its thread does the dispatcher's work for them

// What fails in the midst may have lost something: the queue ends, as if it was the dispatcher's.
template <class Work>
auto WorkQueue::Impl::in_turn(Work work) -> decltype(work()) {
  const auto mine = my_turn();
  if (has_ended_) return fail(Code::peer_gone, fmt::format("queue '{}': it has ended", name_));
  if (failed_) return tl::unexpected(*failed_);
  auto done = guarded(std::move(work));
  GANTRY_DEBUG_ASSERT(!done || hears_all_ || !turn_needs_all() || is_rung());  // I4
  if (!done && done.error().code != Code::timed_out) end_with(done.error());
  return done;
}

void WorkQueue::Impl::end_with(const Error& why) {
  failed_ = why;
  ring(stop_event_.get());
}

Result<std::size_t> WorkQueue::Impl::put_here(std::span<const ConstByteSpan> items) {
  if (options_.most_items != 0) return 0;
  std::size_t done = 0;
  while (done < items.size()) {
    const auto put = put_some_here(items.subspan(done));
    if (!put && done == 0) return put;
    if (!put || *put == 0) break;  // the next call says why
    done += *put;
  }
  return done;
}

// The first ones, in one turn, so that those who wait get several at once: as many as go together.
Result<std::size_t> WorkQueue::Impl::put_some_here(std::span<const ConstByteSpan> items) {
  GANTRY_ASSIGN(auto payloads, copies_that_go_together(items, name_));
  if (payloads.empty()) return 0;
  return in_turn([&]() -> Result<std::size_t> {
    const std::size_t room =
        options_.most_copied - std::min(ledger_.copied(), options_.most_copied);
    if (payloads.size() > room) payloads.resize(room);
    for (auto& payload : payloads) {
      questions_.note_put(kHere);
      is_closed_ ? ledger_.drop_put() : ledger_.put(std::move(payload));
    }
    bool has_all = true;
    if (!asking_.is_empty() || here_.waits || !hears_enough()) {  // maybe those who ask have left
      GANTRY_ASSIGN(has_all, take_in());
    }
    if (has_all) publish_report();
    return payloads.size();
  });
}

// What has come is taken in by this thread, as far as it can: true if it was all. What is left is
// the dispatcher's, which sleeps as before: the inbox has been looked at until nothing was there,
// or it is rung. Then it publishes the next report: one of now could be of before what was put.
Result<bool> WorkQueue::Impl::take_in(bool is_asked) {
  std::size_t found = 0;
  do {
    GANTRY_ASSIGN(found, look(is_asked));
    hand_out_all();
  } while (found < kLooksOfTurn && !hears_enough());
  if (questions_.has_some() || !leaving_.empty()) answer(found < kLooksOfTurn && !is_rung(), false);
  if (found == kLooksOfTurn || questions_.has_some() || !leaving_.empty() || finishes_by_)
    ring(stop_event_.get());
  return found < kLooksOfTurn;
}

std::vector<WorkItem> WorkQueue::Impl::take_first(std::size_t most) {
  std::vector<WorkItem> items;
  items.reserve(std::min(most, ledger_.waiting()));
  while (items.size() < most) {
    auto payload = ledger_.next_payload();
    const auto bytes = payload == nullptr ? std::nullopt : payload->small_bytes();
    if (!bytes) break;
    const WorkLedger::Item given = ledger_.hand_to(kHere);
    WorkItem& item = items.emplace_back();
    item.part_ = *bytes;
    if (payload->is_copied()) {
      item.batch_ = std::move(payload);
    } else {  // the putter wants its slot back
      const auto copy = std::make_shared<std::vector<std::byte>>(bytes->begin(), bytes->end());
      item.part_ = *copy;
      item.batch_ = copy;
    }
    item.number_ = given.number;
    item.tries_ = given.tries;
    ledger_.acknowledge(kHere, given.number);
  }
  return items;
}

Result<std::vector<WorkItem>> WorkQueue::Impl::take_here(std::size_t most, Deadline deadline,
                                                         int interrupt) {
  std::unique_lock alone(waiting_here_, std::defer_lock);
  const bool may_wait = !deadline.passed() && alone.try_lock();
  bool waits = false;
  auto first = in_turn([&]() -> Result<std::vector<WorkItem>> {
    GANTRY_ASSIGN(const bool has_all, take_in());
    // An item that a member gives up, and that comes back, is before the others.
    const bool is_next = asking_.is_empty() && leaving_.empty();
    auto items = is_next ? take_first(most) : std::vector<WorkItem>();
    waits = items.empty() && may_wait && is_next && !ledger_.has_waiting() && !is_closed_;
    if (waits) {
      here_.waits = here_.sleeps = true;
      here_.most = most;
      show_inbox_to_dispatcher(false);
    }
    if (has_all) publish_report();
    if (!items.empty()) return items;
    return fail(Code::timed_out, fmt::format("queue '{}': nothing waits", name_));
  });
  return waits ? wait_here(deadline, interrupt) : std::move(first);
}

// Meanwhile this thread has the dispatcher's turns, so that a message wakes one thread:
//   I1  While here_.waits, this thread sleeps on the inbox, and the dispatcher does not.
//   I2  here_.waits ends in somebody's turn, with an item or without, and this thread is told.
Result<std::vector<WorkItem>> WorkQueue::Impl::wait_here(Deadline deadline, int interrupt) {
  const trace::WaitProbe probe(name_, trace::Awaited::message);
  for (;;) {
    const unsigned rung =
        sleep_on({server_->event_descriptor(), here_event_.get(), interrupt}, deadline.left());
    const auto mine = my_turn();
    here_.sleeps = false;
    Result<bool> taken = false;  // has all
    if (here_.waits && !failed_) taken = guarded([&] { return take_in(); });
    if (!taken) end_with(taken.error());
    const bool is_interrupted = (rung & 4) != 0;
    here_.sleeps = here_.waits && !failed_ && !is_interrupted && !deadline.passed();
    here_.waits = here_.sleeps;
    if (taken && *taken) publish_report();
    if (here_.sleeps) continue;
    if (std::exchange(here_.is_rung, false)) drain(here_event_.get());
    show_inbox_to_dispatcher(true);
    if (!here_.items.empty()) return std::exchange(here_.items, {});
    if (failed_) return tl::unexpected(*failed_);
    if (has_ended_) return fail(Code::peer_gone, fmt::format("queue '{}': it has ended", name_));
    if (is_interrupted)
      return fail(Code::interrupted, fmt::format("queue '{}': interrupted", name_));
    return fail(Code::timed_out, fmt::format("queue '{}': nothing came in time", name_));
  }
}

// Without a wake: whether it sleeps now or not, it is woken by the inbox if it is shown.
void WorkQueue::Impl::show_inbox_to_dispatcher(bool is_shown) const noexcept {
  const int inbox = server_->event_descriptor();
  epoll_event interest{is_shown ? EPOLLIN : 0u, {.fd = inbox}};
  ::epoll_ctl(rung_.get(), EPOLL_CTL_MOD, inbox, &interest);
}

// A report may be of before what was put just now: the thread is asked for a new one.
Result<void> WorkQueue::Impl::wait_until_done(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = reports_;
  ++wishes_.done;
  const Counted counted(wishes_.done);
  ring(stop_event_.get());
  const auto is_over = [&] {
    return why_ended_ || (reports_ > before + 1 && report_.waiting_items + report_.in_hand == 0);
  };
  while (!is_over()) {
    if (deadline.passed())
      return fail(
          Code::timed_out,
          fmt::format("queue '{}': the deadline passed with {} items waiting and {} in hand", name_,
                      report_.waiting_items, report_.in_hand));
    if (reports_ <= before + 1) ring(stop_event_.get());
    if (deadline.is_never())
      changed_.wait(lock);
    else
      changed_.wait_for(lock, deadline.left());
  }
  if (why_ended_) return tl::unexpected(*why_ended_);
  return lost_.tell();
}

WorkQueue::WorkQueue(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
WorkQueue::WorkQueue(WorkQueue&&) noexcept = default;
WorkQueue& WorkQueue::operator=(WorkQueue&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
// A child's copy is left as it is: its thread and who held its locks stayed with the parent.
WorkQueue::~WorkQueue() {
  if (impl_ && !impl_->is_ours()) disown(std::move(impl_));
}

Result<WorkQueue> WorkQueue::open(std::string_view name, const WorkQueueOptions& options,
                                  std::shared_ptr<Engine> engine) {
  return guarded([&]() -> Result<WorkQueue> {
    GANTRY_ASSIGN(auto impl, Impl::make(name, options, std::move(engine)));
    return WorkQueue(std::move(impl));
  });
}

void WorkQueue::finish() noexcept {
  if (impl_ && impl_->is_ours()) impl_->finish();
}
Result<void> WorkQueue::wait_until_done(Deadline deadline) {
  return guarded_on(impl_, "WorkQueue", [&]() -> Result<void> {
    if (!impl_->is_ours()) return belongs_to_parent("this queue");
    return impl_->wait_until_done(deadline);
  });
}
Result<bool> WorkQueue::put_here(ConstByteSpan payload) {
  return put_here({&payload, 1}).map([](std::size_t put) { return put == 1; });
}
Result<std::size_t> WorkQueue::put_here(std::span<const ConstByteSpan> items) {
  return guarded_on(impl_, "WorkQueue", [&]() -> Result<std::size_t> {
    if (!impl_->is_ours()) return belongs_to_parent("this queue");
    return impl_->put_here(items);
  });
}
Result<WorkItem> WorkQueue::take_here(Deadline deadline, int interrupt_descriptor) {
  return take_many_here(1, deadline, interrupt_descriptor).map([](auto items) {
    return std::move(items.front());
  });
}
Result<std::vector<WorkItem>> WorkQueue::take_many_here(std::size_t most, Deadline deadline,
                                                        int interrupt_descriptor) {
  return guarded_on(impl_, "WorkQueue", [&]() -> Result<std::vector<WorkItem>> {
    if (!impl_->is_ours()) return belongs_to_parent("this queue");
    if (most == 0) return fail(Code::invalid_argument, "queue: 0 items to take", "1 or more");
    return impl_->take_here(most, deadline, interrupt_descriptor);
  });
}
WorkQueueReport WorkQueue::report() const {
  return impl_ && impl_->is_ours() ? impl_->report() : WorkQueueReport();
}

}  // namespace gantry
