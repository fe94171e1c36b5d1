#include "placed.hpp"

namespace gantry::bench {
namespace {

class Placed final : public Subject {
 public:
  Placed(std::unique_ptr<Subject> subject, const Network& network)
      : subject_(std::move(subject)), network_(network) {}

  Result<void> become(const Post& post, int link) override {
    auto entered = network_.enter(post.asks() ? Host::asking : Host::answering);
    return entered ? subject_->become(post, link) : entered;
  }
  Result<std::unique_ptr<Requester>> open_requester() override {
    return subject_->open_requester();
  }
  Result<std::unique_ptr<Responder>> open_responder(int reader) override {
    return subject_->open_responder(reader);
  }
  [[nodiscard]] std::shared_ptr<void> company() const override { return subject_->company(); }

 private:
  std::unique_ptr<Subject> subject_;
  const Network& network_;
};

}  // namespace

SubjectKind placed(SubjectKind kind, const Network& network) {
  kind.make = [make = std::move(kind.make),
               &network](const Case& what) -> Result<std::unique_ptr<Subject>> {
    auto made = make(what);
    if (!made) return made;
    return std::make_unique<Placed>(std::move(*made), network);
  };
  return kind;
}

}  // namespace gantry::bench
