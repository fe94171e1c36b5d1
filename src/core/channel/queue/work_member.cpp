#include "core/base/moved_from.hpp"
#include "core/base/os/disown.hpp"
#include "core/channel/queue/acknowledger.hpp"
#include "core/channel/queue/item_batch.hpp"

namespace gantry {
namespace {

constexpr std::chrono::seconds kPatience{1};  // for a queue that answers at once, if it runs

ClientOptions client_options(const WorkMemberOptions& options) {
  const EndOptions& end = options;
  const PayloadOptions& payload = options;
  ClientOptions client;
  static_cast<EndOptions&>(client) = end;
  static_cast<PayloadOptions&>(client) = payload;
  client.as.reset();  // of items alone; put() names it
  client.receive = options.receive;
  return client;
}

WorkItem first_of(std::vector<WorkItem> items) {
  return std::move(items.front());
}

}  // namespace

// ---- a member ------------------------------------------------------------------------------

class GANTRY_LOCAL WorkMember::Impl {
 public:
  Impl(std::string_view name, const WorkMemberOptions& options, std::shared_ptr<ClientLink> link)
      : name_(name),
        options_(options),
        link_(std::move(link)),
        acknowledger_(std::make_shared<WorkItem::Acknowledger>(link_)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { acknowledger_->leave(); }

  Result<void> put(Draft draft, Deadline deadline);
  Result<std::size_t> put_many(std::span<const ConstByteSpan> items, Deadline deadline);
  Result<std::vector<WorkItem>> get(std::size_t most, Deadline deadline);
  Result<std::vector<WorkItem>> withdraw(std::size_t most, Deadline deadline);
  Result<void> reserve(Deadline deadline);
  Result<void> give_place_back();
  Result<Message> ask(WorkQuestion question, Deadline deadline);
  Result<int> event_descriptor();
  [[nodiscard]] bool is_ours() const noexcept { return acknowledger_->is_ours(); }
  Pool pool() {
    return acknowledger_->use([](ClientLink& link) { return link.requests().shared_pool(); });
  }

 private:
  /// What the member has asked for and has no answer to.
  struct Asked {
    explicit Asked(WorkQuestion what) : question(what) {}
    WorkQuestion question;
    std::optional<std::uint64_t> call;  // its correlation
    bool has_left = false;              // the line
    bool gave_up = false;               // the answer is void: the queue takes back what it gave
    std::uint32_t most = 1;             // items that the call is for

    void end() { call.reset(), has_left = gave_up = false; }
  };
  Result<void> join(Deadline deadline);
  Result<void> begin(Asked& asked, Deadline deadline);
  Result<Message> await(Asked& asked, Deadline deadline);
  [[nodiscard]] Error told(Error error) const;
  Result<Message> leave(Asked& asked, Deadline deadline);
  Result<void> post(Draft draft, PostForm form, Deadline deadline);
  Result<std::size_t> put_some(std::span<const ConstByteSpan> items, Deadline deadline);
  Result<std::vector<WorkItem>> open_items(Message message);
  Result<std::vector<WorkItem>> open_batch(const Message& message);
  Result<WorkItem> open_item(Message message);

  const std::string name_;
  const WorkMemberOptions options_;
  const std::shared_ptr<ClientLink> link_;  // sends through the acknowledger only
  const std::shared_ptr<WorkItem::Acknowledger> acknowledger_;
  bool has_joined_ = false;
  Asked item_{WorkQuestion::item};
  Asked place_{WorkQuestion::place};
  Asked other_{WorkQuestion::report};
  std::uint32_t most_ = 1;  // items that the next get is for
};

Result<void> WorkMember::Impl::put(Draft draft, Deadline deadline) {
  if (!is_ours()) return belongs_to_parent("this member");
  if (draft.parts().empty()) draft.copy(ConstByteSpan());
  draft.copy(ConstByteSpan());
  return post(std::move(draft), PostForm::item, deadline);
}

Result<void> WorkMember::Impl::post(Draft draft, PostForm form, Deadline deadline) {
  return acknowledger_->use([&](ClientLink& link) {
    return link.requests().send(std::move(draft.parts()),
                                {.deadline = deadline,
                                 .type = static_cast<std::uint32_t>(form),
                                 .user = static_cast<std::uint64_t>(RpcKind::post),
                                 .as = options_.as ? &*options_.as : nullptr});
  });
}

/// The first items: those that fit into one message, or one that goes alone.
Result<std::size_t> WorkMember::Impl::put_some(std::span<const ConstByteSpan> items,
                                               Deadline deadline) {
  ItemBatch batch;
  if (!options_.as)
    for (const ConstByteSpan item : items)
      if (!batch.add({0, 0, item})) break;
  if (batch.size() < 2)
    return put(Draft().copy(items[0]), deadline).map([] { return std::size_t{1}; });
  return post(batch.draft(), PostForm::batch, deadline).map([&] { return batch.size(); });
}

Result<std::size_t> WorkMember::Impl::put_many(std::span<const ConstByteSpan> items,
                                               Deadline deadline) {
  if (!is_ours()) return belongs_to_parent("this member");
  std::size_t done = 0;
  while (done < items.size()) {
    const auto put = guarded([&] { return put_some(items.subspan(done), deadline); });
    if (!put && done == 0) return put;
    if (!put) break;  // the next call says why
    GANTRY_STEP(queue_batch_put);
    done += *put;
  }
  return done;
}

// The way back is made by the first question. A passed deadline is no reason not to have asked.
Result<void> WorkMember::Impl::join(Deadline deadline) {
  if (has_joined_) return {};
  if (deadline.left() < kPatience) deadline = Deadline::after(kPatience);
  auto introduced =
      acknowledger_->use([deadline](ClientLink& link) { return link.introduce(deadline); });
  if (!introduced) return tl::unexpected(link_->not_sent(std::move(introduced).error()));
  has_joined_ = true;
  return {};
}

// A queue that finished and went says so as it goes.
Error WorkMember::Impl::told(Error error) const {
  if (error.code != Code::closed) return error;
  return {Code::closed, fmt::format("queue '{}': it is finished", name_), {}};
}

Result<void> WorkMember::Impl::begin(Asked& asked, Deadline deadline) {
  GANTRY_TRY(join(deadline));
  acknowledger_->reserve();
  asked.most = asked.question == WorkQuestion::item ? most_ : 1;
  GANTRY_ASSIGN(asked.call, acknowledger_->use([&](ClientLink& link) {
    return link.begin({.type = static_cast<std::uint32_t>(asked.question), .room = deadline},
                      [&](const SendOptions& sending) {
                        return link.requests().send(std::as_bytes(std::span(&asked.most, 1)),
                                                    sending);
                      });
  }));
  return {};
}

Result<Message> WorkMember::Impl::await(Asked& asked, Deadline deadline) {
  if (!is_ours()) return belongs_to_parent("this member");
  for (;;) {
    if (!asked.call)
      if (auto begun = begin(asked, deadline); !begun)
        return tl::unexpected(told(std::move(begun).error()));
    auto reply = link_->wait(*asked.call, deadline);
    if (!reply && !link_->is_over(*asked.call)) return reply;
    const bool is_void =
        asked.gave_up || (asked.has_left && !reply && reply.error().code == Code::not_found);
    asked.end();
    if (reply && !is_void) return reply;
    if (!is_void) return tl::unexpected(told(std::move(reply).error()));
  }
}

// `timed_out`: nothing came, or the queue did not say so in time. What it has handed out meanwhile
// it takes back then, so that nothing lies with a member that does not ask again. A queue that has
// gone cannot be told; the request knows why it went.
Result<Message> WorkMember::Impl::leave(Asked& asked, Deadline deadline) {
  if (!is_ours()) return belongs_to_parent("this member");
  const auto nothing_came = [&] {
    return fail(Code::timed_out, fmt::format("queue '{}': nothing came in time", name_));
  };
  if (!asked.call || asked.gave_up) return nothing_came();
  const std::uint64_t name = RequestName{asked.question, *asked.call}.word();
  if (!deadline.passed()) {
    if (!asked.has_left) static_cast<void>(acknowledger_->tell(ToQueue::left_line, name));
    asked.has_left = true;
    auto reply = link_->wait(*asked.call, deadline);
    if (reply || link_->is_over(*asked.call)) {
      asked.end();
      if (!reply && reply.error().code == Code::not_found) return nothing_came();
      return reply;
    }
    if (reply.error().code != Code::timed_out) return reply;
  }
  static_cast<void>(acknowledger_->tell(ToQueue::gave_up, name));
  asked.gave_up = true;
  return nothing_came();
}

// A request that is under way for another number of items is given up: nothing comes that this get
// is not for, and what was handed out for that one has not been tried.
Result<std::vector<WorkItem>> WorkMember::Impl::get(std::size_t most, Deadline deadline) {
  if (!is_ours()) return belongs_to_parent("this member");
  if (most == 0)
    return fail(Code::invalid_argument, fmt::format("queue '{}': 0 items", name_), "1 or more");
  most_ = static_cast<std::uint32_t>(std::min(most, kMostBatched));
  if (item_.call && item_.most != most_ && !item_.gave_up) {
    const RequestName name{WorkQuestion::item, *item_.call};
    static_cast<void>(acknowledger_->tell(ToQueue::gave_up, name.word()));
    item_.gave_up = true;
  }
  GANTRY_ASSIGN(Message reply, await(item_, deadline));
  return open_items(std::move(reply));
}

Result<std::vector<WorkItem>> WorkMember::Impl::withdraw(std::size_t most, Deadline deadline) {
  if (item_.most > most) deadline = Deadline::now();  // the queue takes back what came
  GANTRY_ASSIGN(Message reply, leave(item_, deadline));
  return open_items(std::move(reply));
}

Result<void> WorkMember::Impl::reserve(Deadline deadline) {
  auto granted = await(place_, deadline);
  if (!granted && granted.error().code == Code::timed_out)
    granted = leave(place_, Deadline::after(kPatience));  // the queue answers at once
  return std::move(granted).map([](auto) {});
}

Result<void> WorkMember::Impl::give_place_back() {
  if (!is_ours()) return belongs_to_parent("this member");
  return acknowledger_->tell(ToQueue::place_back, 0);
}

Result<Message> WorkMember::Impl::ask(WorkQuestion question, Deadline deadline) {
  if (other_.question != question && other_.call)
    acknowledger_->use([this](ClientLink& link) { return link.cancel(*other_.call), true; });
  if (other_.question != question) other_ = Asked(question);
  const bool is_old = question == WorkQuestion::report && other_.call;
  auto reply = await(other_, deadline);
  return reply && is_old ? await(other_, deadline) : std::move(reply);
}

// The queue takes back what its answer gave if that is not the user's, for want of heap or since
// it makes no sense.
Result<std::vector<WorkItem>> WorkMember::Impl::open_items(Message message) {
  const RequestName name{WorkQuestion::item, message.info().correlation};
  auto items = guarded([&]() -> Result<std::vector<WorkItem>> {
    if (static_cast<PostForm>(message.info().type) == PostForm::batch) return open_batch(message);
    std::vector<WorkItem> one(1);
    GANTRY_ASSIGN(one[0], open_item(std::move(message)));
    return one;
  });
  if (!items)
    static_cast<void>(guarded([&] { return acknowledger_->tell(ToQueue::gave_up, name.word()); }));
  return items;
}

// The items are copied together, so that none of them keeps a slot of the queue's.
Result<std::vector<WorkItem>> WorkMember::Impl::open_batch(const Message& message) {
  std::optional<std::vector<BatchItem>> found;
  if (message.segments() == 2)
    found = ItemBatch::read(message.segment(0).bytes, message.segment(1).bytes, item_.most);
  if (!found)
    return fail(Code::peer_misbehaved,
                fmt::format("queue '{}': an answer that is no batch of {} items at most", name_,
                            item_.most));
  const ConstByteSpan bytes = message.segment(0).bytes;
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const bool by_hand = options_.acknowledge == Acknowledge::by_hand;
  std::vector<WorkItem> items(found->size());
  const std::byte* at = copy->data();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const BatchItem& one = (*found)[i];
    items[i].batch_ = copy;
    items[i].part_ = {at, one.bytes.size()};
    items[i].number_ = one.number;
    items[i].tries_ = std::max(one.tries, 1u);
    at += one.bytes.size();
  }
  const std::uint64_t request = message.info().correlation;
  GANTRY_STEP(queue_batch_read);
  const auto told =
      acknowledger_->tell(by_hand ? ToQueue::batch_seen : ToQueue::batch_done, request);
  GANTRY_STEP(queue_batch_told);
  if (by_hand)
    for (WorkItem& item : items) item.acknowledger_ = acknowledger_;
  static_cast<void>(told);  // as of one item: what was got is the user's, and the next get says it
  return items;
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
  const bool by_hand = options_.acknowledge == Acknowledge::by_hand;
  if (by_hand && item_.most > 1)
    static_cast<void>(acknowledger_->tell(ToQueue::batch_seen, item.message().info().correlation));
  else if (!by_hand)
    static_cast<void>(acknowledger_->tell(ToQueue::acknowledged, item.number_));
  if (by_hand) item.acknowledger_ = acknowledger_;  // last: it would tell what is not the user's
  return item;
}

Result<int> WorkMember::Impl::event_descriptor() {
  if (has_joined_) return link_->event_descriptor();
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
    GANTRY_ASSIGN(auto link, ClientLink::make(Purpose::work, name, client_options(options),
                                              std::move(engine), deadline));
    return WorkMember(std::make_unique<Impl>(name, options, std::move(link)));
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
Result<std::size_t> WorkMember::put_many(std::span<const ConstByteSpan> items, Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->put_many(items, deadline); });
}
Result<WorkItem> WorkMember::get(Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->get(1, deadline).map(first_of); });
}
Result<std::vector<WorkItem>> WorkMember::get_many(std::size_t most, Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->get(most, deadline); });
}
Result<WorkItem> WorkMember::withdraw(Deadline deadline) {
  return guarded_on(impl_, "WorkMember",
                    [&] { return impl_->withdraw(1, deadline).map(first_of); });
}
Result<std::vector<WorkItem>> WorkMember::withdraw_many(Deadline deadline, std::size_t most) {
  return guarded_on(impl_, "WorkMember", [&] { return impl_->withdraw(most, deadline); });
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

Result<void> WorkMember::task_done(Deadline deadline) {
  return guarded_on(impl_, "WorkMember",
                    [&] { return impl_->ask(WorkQuestion::finished, deadline).map([](auto) {}); });
}
Result<void> WorkMember::wait_until_finished(Deadline deadline) {
  return guarded_on(impl_, "WorkMember", [&] {
    return impl_->ask(WorkQuestion::all_finished, deadline).map([](auto) {});
  });
}
Result<void> WorkMember::wait_until_done(Deadline deadline) {
  return guarded_on(impl_, "WorkMember",
                    [&] { return impl_->ask(WorkQuestion::all_done, deadline).map([](auto) {}); });
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
  batch_ = std::move(other.batch_);
  part_ = std::exchange(other.part_, {});
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
  if (batch_ != nullptr) return 1;
  return tries_ == 0 ? 0 : message_.segments() - 1;
}

Segment WorkItem::segment(std::size_t index) const& noexcept {
  if (index >= segments()) return {};
  return batch_ == nullptr ? message_.segment(index) : Segment{part_, {}};
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
