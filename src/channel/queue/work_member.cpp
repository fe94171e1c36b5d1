#include <sys/random.h>

#include "base/moved_from.hpp"
#include "base/os/disown.hpp"
#include "channel/queue/acknowledger.hpp"
#include "channel/wire/far_sides.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kPatience{1};  // for a queue that answers at once, if it runs

Result<std::uint64_t> make_identity() {
  std::uint64_t identity = 0;
  while (identity == 0)
    if (::getrandom(&identity, sizeof identity, 0) != sizeof identity)
      return fail_errno("getrandom");
  return identity;
}

ClientOptions client_options(const WorkMemberOptions& options) {
  const EndOptions& end = options;
  const PayloadOptions& payload = options;
  ClientOptions client;
  static_cast<EndOptions&>(client) = end;
  static_cast<PayloadOptions&>(client) = payload;
  client.memory.reset();  // its requests are a word,
  client.as.reset();      // which stays one
  client.pool = {};
  client.metrics_descriptor = -1;
  client.receive = options.receive;
  return client;
}

ProducerOptions producer_options(const WorkMemberOptions& options) {
  const EndOptions& end = options;
  const PayloadOptions& payload = options;
  ProducerOptions producer;
  static_cast<EndOptions&>(producer) = end;
  static_cast<PayloadOptions&>(producer) = payload;
  producer.as.reset();  // of items alone; put() names it
  return producer;
}

}  // namespace

// ---- a member ------------------------------------------------------------------------------

class GANTRY_LOCAL WorkMember::Impl {
 public:
  Impl(std::string_view name, const WorkMemberOptions& options, std::shared_ptr<Engine> engine,
       Producer producer, std::uint64_t identity)
      : name_(name),
        options_(options),
        engine_(std::move(engine)),
        acknowledger_(std::make_shared<WorkItem::Acknowledger>(std::move(producer))),
        identity_(identity) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    item_.pending.reset();
    place_.pending.reset();
    other_.pending.reset();
    acknowledger_->leave();
  }

  Result<void> put(Draft draft, Deadline deadline);
  Result<WorkItem> get(Deadline deadline);
  Result<WorkItem> withdraw(Deadline deadline);
  Result<void> reserve(Deadline deadline);
  Result<void> give_place_back();
  Result<Message> ask(WorkQuestion question, Deadline deadline);
  Result<int> event_descriptor();
  [[nodiscard]] bool is_ours() const noexcept { return acknowledger_->is_ours(); }
  Pool pool() {
    return acknowledger_->use([](Producer& producer) { return producer.pool(); });
  }

 private:
  /// What the member has asked for and has no answer to.
  struct Asked {
    explicit Asked(WorkQuestion what) : question(what) {}
    WorkQuestion question;
    std::optional<PendingReply> pending;
    std::uint64_t number = 0;
    bool has_left = false;  // the line
    bool gave_up = false;   // the answer is void: the queue takes back what it gave

    void end() { pending.reset(), has_left = gave_up = false; }
  };
  Result<void> join(Deadline deadline);
  Result<Message> await(Asked& asked, Deadline deadline);
  Result<Message> await_answer(Asked& asked, Deadline deadline);
  Result<Message> leave(Asked& asked, Deadline deadline);
  Result<WorkItem> open_item(Message message);

  const std::string name_;
  const WorkMemberOptions options_;
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<WorkItem::Acknowledger> acknowledger_;
  const std::uint64_t identity_;
  std::optional<Client> client_;
  std::uint64_t last_request_ = 0;
  Asked item_{WorkQuestion::item};
  Asked place_{WorkQuestion::place};
  Asked other_{WorkQuestion::report};
};

Result<void> WorkMember::Impl::put(Draft draft, Deadline deadline) {
  if (!is_ours()) return belongs_to_parent("this member");
  if (draft.parts().empty()) draft.copy(ConstByteSpan());
  draft.copy(ConstByteSpan());
  return acknowledger_->use([&](Producer& producer) {
    return producer.send(std::move(draft),
                         {.deadline = deadline,
                          .correlation = static_cast<std::uint64_t>(ToQueue::item),
                          .as = options_.as ? &*options_.as : nullptr});
  });
}

// Where the queue is, it answers at once: a passed deadline is no reason not to have asked.
Result<void> WorkMember::Impl::join(Deadline deadline) {
  if (client_) return {};
  if (deadline.left() < kPatience) deadline = Deadline::after(kPatience);
  constexpr std::byte kWord{};
  GANTRY_TRY(acknowledger_->use([&](Producer& producer) {
    return producer.send({&kWord, 1}, {.deadline = deadline,
                                       .user = identity_,
                                       .correlation = static_cast<std::uint64_t>(ToQueue::hello)});
  }));
  for (;;) {
    const Deadline look =
        Deadline::after(std::min<std::chrono::nanoseconds>(deadline.left(), kPatience));
    auto client = Client::connect(name_, client_options(options_), engine_, look);
    if (client) {
      client_.emplace(*std::move(client));
      return {};
    }
    if (client.error().code != Code::timed_out || deadline.passed())
      return tl::unexpected(std::move(client).error());
    if (acknowledger_->use([](Producer& producer) { return FarSides::is_alone(producer); }))
      return fail(Code::peer_gone, fmt::format("queue '{}': it has gone", name_));
  }
}

// A queue that finished and went says so in its inbox: its server went without a word.
Result<Message> WorkMember::Impl::await(Asked& asked, Deadline deadline) {
  auto reply = await_answer(asked, deadline);
  if (reply || reply.error().code != Code::peer_gone) return reply;
  const auto word =
      acknowledger_->use([](Producer& producer) { return FarSides::last_word(producer); });
  if (!word || word->code != Code::closed) return reply;
  return fail(Code::closed, fmt::format("queue '{}': it is finished", name_));
}

Result<Message> WorkMember::Impl::await_answer(Asked& asked, Deadline deadline) {
  if (!is_ours()) return belongs_to_parent("this member");
  GANTRY_TRY(join(deadline));
  for (;;) {
    if (!asked.pending) {
      const QueueRequest request{identity_, asked.question, ++last_request_};
      GANTRY_ASSIGN(asked.pending,
                    client_->call_async(std::as_bytes(std::span(&request, 1)), {.room = deadline}));
      asked.number = request.number;
    }
    auto reply = asked.pending->wait(deadline);
    if (!reply && !asked.pending->is_over()) return reply;
    const bool is_void =
        asked.gave_up || (asked.has_left && !reply && reply.error().code == Code::not_found);
    asked.end();
    if (!is_void) return reply;
  }
}

// `timed_out`: nothing came, or the queue did not say so in time. What it has handed out meanwhile
// it takes back then, so that nothing lies with a member that does not ask again.
Result<Message> WorkMember::Impl::leave(Asked& asked, Deadline deadline) {
  if (!is_ours()) return belongs_to_parent("this member");
  const auto nothing_came = [&] {
    return fail(Code::timed_out, fmt::format("queue '{}': nothing came in time", name_));
  };
  if (!asked.pending || asked.gave_up) return nothing_came();
  const std::uint64_t name = RequestName{asked.question, asked.number}.word();
  if (!deadline.passed()) {
    if (!asked.has_left) GANTRY_TRY(acknowledger_->tell(ToQueue::left_line, name));
    asked.has_left = true;
    auto reply = asked.pending->wait(deadline);
    if (reply || asked.pending->is_over()) {
      asked.end();
      if (!reply && reply.error().code == Code::not_found) return nothing_came();
      return reply;
    }
    if (reply.error().code != Code::timed_out) return reply;
  }
  GANTRY_TRY(acknowledger_->tell(ToQueue::gave_up, name));
  asked.gave_up = true;
  return nothing_came();
}

Result<WorkItem> WorkMember::Impl::get(Deadline deadline) {
  GANTRY_ASSIGN(Message reply, await(item_, deadline));
  return open_item(std::move(reply));
}

Result<WorkItem> WorkMember::Impl::withdraw(Deadline deadline) {
  GANTRY_ASSIGN(Message reply, leave(item_, deadline));
  return open_item(std::move(reply));
}

Result<void> WorkMember::Impl::reserve(Deadline deadline) {
  auto granted = await(place_, deadline);
  if (!granted && granted.error().code == Code::timed_out)
    granted = leave(place_, Deadline::after(kPatience));  // the queue answers at once
  if (!granted) return tl::unexpected(std::move(granted).error());
  return {};
}

Result<void> WorkMember::Impl::give_place_back() {
  if (!is_ours()) return belongs_to_parent("this member");
  return acknowledger_->tell(ToQueue::place_back, 0);
}

Result<Message> WorkMember::Impl::ask(WorkQuestion question, Deadline deadline) {
  if (other_.question != question) other_ = Asked(question);
  const bool is_old = question == WorkQuestion::report && other_.pending;
  auto reply = await(other_, deadline);
  return reply && is_old ? await(other_, deadline) : std::move(reply);
}

Result<WorkItem> WorkMember::Impl::open_item(Message message) {
  ItemHeader header;
  const Segment last = message.segment(message.segments() - 1);
  if (message.segments() < 2 || last.bytes.size() != sizeof header)
    return fail(
        Code::peer_misbehaved,
        fmt::format("queue '{}': an item of {} segments whose last has {} bytes; at least 2 and {} "
                    "are allowed",
                    name_, message.segments(), last.bytes.size(), sizeof header));
  std::memcpy(&header, last.bytes.data(), sizeof header);
  WorkItem item;
  item.message_ = std::move(message);
  item.number_ = header.number;
  item.tries_ = static_cast<unsigned>(std::max<std::uint64_t>(header.tries, 1));
  if (options_.acknowledge == Acknowledge::by_hand)
    item.acknowledger_ = acknowledger_;
  else
    static_cast<void>(acknowledger_->tell(ToQueue::acknowledged, item.number_));
  return item;
}

Result<int> WorkMember::Impl::event_descriptor() {
  if (client_) return client_->event_descriptor();
  return fail(Code::invalid_argument, fmt::format("queue '{}': nothing was asked for", name_),
              "call get() with a passed deadline first");
}

WorkMember::WorkMember(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
WorkMember::WorkMember(WorkMember&&) noexcept = default;
WorkMember& WorkMember::operator=(WorkMember&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
WorkMember::~WorkMember() {
  if (impl_ && !impl_->is_ours()) disown(std::move(impl_));  // its locks may be held for ever
}

Result<WorkMember> WorkMember::connect(std::string_view name, const WorkMemberOptions& options,
                                       std::shared_ptr<Engine> engine, Deadline deadline) {
  return guarded([&]() -> Result<WorkMember> {
    GANTRY_ASSIGN(const std::uint64_t identity, make_identity());
    GANTRY_ASSIGN(auto producer,
                  Producer::connect(put_name(name), producer_options(options), engine, deadline));
    return WorkMember(
        std::make_unique<Impl>(name, options, std::move(engine), std::move(producer), identity));
  });
}

Result<void> WorkMember::put(ConstByteSpan payload, Deadline deadline) {
  return guarded_on(impl_, "WorkMember",
                    [&] { return impl_->put(Draft().copy(payload), deadline); });
}
Result<void> WorkMember::put(Draft draft, Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->put(std::move(draft), deadline); });
}
Pool WorkMember::pool() const {
  return impl_->pool();
}
Result<WorkItem> WorkMember::get(Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->get(deadline); });
}
Result<WorkItem> WorkMember::withdraw(Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->withdraw(deadline); });
}
Result<void> WorkMember::reserve(Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->reserve(deadline); });
}
Result<void> WorkMember::give_place_back() {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->give_place_back(); });
}
Result<WorkQueueReport> WorkMember::report(Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&]() -> Result<WorkQueueReport> {
    GANTRY_ASSIGN(const Message reply, impl_->ask(WorkQuestion::report, deadline));
    WorkQueueReport report;
    if (reply.bytes().size() != sizeof report)
      return fail(Code::peer_misbehaved, fmt::format("queue: a report of {} bytes; {} are allowed",
                                                     reply.bytes().size(), sizeof report));
    std::memcpy(&report, reply.bytes().data(), sizeof report);
    return report;
  });
}

namespace {
Result<void> without_payload(Result<Message> reply) {
  if (!reply) return tl::unexpected(std::move(reply).error());
  return {};
}
}  // namespace

Result<void> WorkMember::task_done(Deadline deadline) {
  return guarded_on(impl_, "WorkMember",
                    [&] { return without_payload(impl_->ask(WorkQuestion::finished, deadline)); });
}
Result<void> WorkMember::wait_until_finished(Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&] {
    return without_payload(impl_->ask(WorkQuestion::all_finished, deadline));
  });
}
Result<void> WorkMember::wait_until_done(Deadline deadline) {
  return guarded_on(impl_, "WorkMember",
                    [&] { return without_payload(impl_->ask(WorkQuestion::all_done, deadline)); });
}
Result<int> WorkMember::event_descriptor() {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->event_descriptor(); });
}

// ---- an item in hand -------------------------------------------------------------------------

WorkItem::WorkItem() noexcept = default;
WorkItem::WorkItem(WorkItem&& other) noexcept {
  *this = std::move(other);
}
WorkItem& WorkItem::operator=(WorkItem&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  message_ = std::move(other.message_);
  acknowledger_ = std::move(other.acknowledger_);
  number_ = std::exchange(other.number_, 0);
  tries_ = std::exchange(other.tries_, 0);
  return *this;
}
WorkItem::~WorkItem() {
  give_back();
}

void WorkItem::give_back() noexcept {
  message_.release();  // first: whoever gets it next may need the room
  if (acknowledger_ == nullptr) return;
  static_cast<void>(guarded([&] { return acknowledger_->tell(ToQueue::given_back, number_); }));
  acknowledger_.reset();
}

std::size_t WorkItem::segments() const noexcept {
  return tries_ == 0 ? 0 : message_.segments() - 1;
}

Segment WorkItem::segment(std::size_t index) const& noexcept {
  return index < segments() ? message_.segment(index) : Segment{};
}

Result<void> WorkItem::done() {
  return guarded([&]() -> Result<void> {
    const auto acknowledger = std::exchange(acknowledger_, nullptr);
    if (acknowledger == nullptr)
      return fail(Code::invalid_argument,
                  fmt::format("item {} has been acknowledged, or is empty", number_),
                  "call done() once, on items of a member that acknowledges by hand");
    return acknowledger->tell(ToQueue::acknowledged, number_);
  });
}

}  // namespace gantry
