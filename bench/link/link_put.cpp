// A bare link between both hosts: the payload is put straight into memory that the reader exports,
// and the signal that comes with it says that it is there.

#include <cstring>
#include <gantry/link.hpp>

#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr std::chrono::seconds kIntroduction{30};  // both ends are being started
// Ends do not call their links while others have their turns: only the connection's end counts.
constexpr std::chrono::milliseconds kNoStallLimit{0};

class PutRequester final : public Requester {
 public:
  PutRequester(std::unique_ptr<gantry::Link> link, const RemoteRegion& places, const Case& what)
      : link_(std::move(link)), places_(places), what_(what), tickets_(what.in_flight) {}

  Result<void> send(const Payload& payload) override {
    const std::uint64_t place = sent_ % what_.in_flight;
    const auto ticket =
        link_->put(Transfer::of(payload.bytes(), places_, place * what_.bytes, sent_));
    if (!ticket) return Unexpected(ticket.error());
    tickets_[place] = *ticket;
    ++sent_;
    link_->poll();
    return {};
  }

  Result<std::uint64_t> receive() override {
    std::uint64_t sum = 0;
    const auto got = link_->receive_control(std::as_writable_bytes(std::span(&sum, 1)));
    if (!got) return Unexpected(got.error());
    if (*got != sizeof sum) return Unexpected({Code::peer_misbehaved, "a reply of no sum", ""});
    auto ended = link_->wait(tickets_[answered_++ % what_.in_flight]);
    if (!ended) return Unexpected(ended.error());
    return sum;
  }

 private:
  std::unique_ptr<gantry::Link> link_;
  RemoteRegion places_;
  Case what_;
  std::vector<Ticket> tickets_;  // of the put into each place
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
};

class PutResponder final : public Responder {
 public:
  static Result<std::unique_ptr<Responder>> open(std::unique_ptr<gantry::Link> link,
                                                 const Case& what) {
    auto made = std::unique_ptr<PutResponder>(new PutResponder(std::move(link), what));
    auto places = made->link_->export_memory(made->places_.bytes(), RemoteAccess::write);
    if (!places) return Unexpected(places.error());
    made->export_ = std::move(*places);
    const auto encoded = made->export_.remote().encode();
    if (auto told = made->link_->send_control(encoded, Deadline::after(kIntroduction)); !told)
      return Unexpected(told.error());
    return made;
  }

  Result<std::uint64_t> receive() override {
    const auto number = link_->receive_signal();
    if (!number) return Unexpected(number.error());
    const Bytes place = *number % what_.in_flight * what_.bytes;
    return checksum(places_.bytes().subspan(place, what_.bytes));
  }
  Result<void> reply(std::uint64_t sum) override {
    auto sent = link_->send_control(std::as_bytes(std::span(&sum, 1)));
    link_->poll();
    return sent;
  }

 private:
  PutResponder(std::unique_ptr<gantry::Link> link, const Case& what)
      : link_(std::move(link)), what_(what), places_(what.bytes * what.in_flight) {}

  std::unique_ptr<gantry::Link> link_;
  Case what_;
  Buffer places_;
  Export export_;
};

class LinkPut final : public Subject {
 public:
  LinkPut(TcpPair pair, Case what) : pair_(std::move(pair)), what_(std::move(what)) {}

  Result<std::unique_ptr<Requester>> open_requester() override {
    pair_.answering.reset();
    auto link = link_over(std::move(pair_.asking));
    if (!link) return Unexpected(link.error());
    RemoteRegion::Encoded encoded{};
    const auto got = (*link)->receive_control(encoded, Deadline::after(kIntroduction));
    if (!got) return Unexpected(got.error());
    const auto places = RemoteRegion::decode(std::span(encoded).first(*got));
    if (!places) return Unexpected(places.error());
    return std::make_unique<PutRequester>(std::move(*link), *places, what_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    pair_.asking.reset();
    auto link = link_over(std::move(pair_.answering));
    if (!link) return Unexpected(link.error());
    return PutResponder::open(std::move(*link), what_);
  }

 private:
  static Result<std::unique_ptr<gantry::Link>> link_over(Descriptor socket) {
    return make_stream_link(socket.release(), {"the other host", kNoStallLimit});
  }

  TcpPair pair_;
  Case what_;
};

}  // namespace

SubjectKind link_put(const Network& network) {
  return {.name = kLinkPutName,
          .make = [&network](const Case& what) -> Result<std::unique_ptr<Subject>> {
            auto pair = network.connect();
            if (!pair) return Unexpected(pair.error());
            return std::make_unique<LinkPut>(std::move(*pair), what);
          },
          .most_in_flight = kLinkInFlight};
}

}  // namespace gantry::bench
