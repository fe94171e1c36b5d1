// c/stage_test.cpp: the ends of a stage of `gantry run`, which names them in the environment.

#include <gantry/image.h>

#include <gantry/stage.hpp>

#include <array>
#include <thread>

#include "test_ends.hpp"

namespace gantry::c::test {
namespace {

/// This process as a stage that has both ends of "frames".
class Stages : public Ends {
 protected:
  void begin(Transport transport, const std::string& output, const std::string& input) {
    std::array<StageEndpoint, 2> ends;
    for (StageEndpoint& end : ends) {
      end.channel = "frames";
      end.transport = transport;
    }
    ends[0].output = true;
    ends[0].links.push_back({output, -1});
    ends[1].links.push_back({input, -1});
    ::setenv("GANTRY_DIR", folder_.c_str(), 1);
    ::setenv(kStageEndpointsVariable, encode_stage_endpoints(ends).c_str(), 1);
    std::thread receiving(
        [&] { EXPECT_OK(gantry_stage_input(runtime_.get(), "frames", Out(input_))); });
    EXPECT_OK(gantry_stage_output(runtime_.get(), "frames", Out(output_)));
    receiving.join();
  }
  Stages() { static_cast<void>(runtime()); }
  ~Stages() override {
    ::unsetenv(kStageImagesVariable);
    ::unsetenv(kStageEndpointsVariable);
    ::unsetenv("GANTRY_DIR");
  }
  void send_loan(std::size_t number, const gantry_tensor* tensor) {
    Owned<gantry_loan> loan;
    void* data = nullptr;
    ASSERT_OK(gantry_loan_take(output_.get(), 4000, kPatienceNs, Out(loan), &data));
    fill(data, 4000, number);
    ASSERT_OK(gantry_loan_publish(output_.get(), loan.get(), 0, tensor, kPatienceNs, nullptr));
  }

  Owned<gantry_producer> output_;
  Owned<gantry_consumer> input_;
};

constexpr gantry_tensor kMatrix{GANTRY_FLOAT, 32, 1, 2, {10, 100}, {100, 1}};

TEST_F(Stages, SendLoansTensorsAndBlocksOverAChannel) {
  begin(Transport::gantry, "frames-0", "frames-0");
  send(output_, bytes_of(1, 100'000));
  expect_bytes(receive(input_).get(), 100'000, 1);
  send_loan(2, &kMatrix);
  const auto message = receive(input_);
  expect_bytes(message.get(), 4000, 2);
  EXPECT_EQ(segment_of(message.get()).has_tensor, 1);
  Owned<gantry_pool> pool;
  EXPECT_OK(gantry_producer_pool(output_.get(), Out(pool)));
  std::thread closing([&] { EXPECT_OK(gantry_producer_close(output_.get(), kPatienceNs)); });
  Owned<gantry_message> none;
  EXPECT_EQ(gantry_receive(input_.get(), kPatienceNs, Out(none)), GANTRY_CLOSED);
  closing.join();
}

TEST_F(Stages, SendLoansOverAPipeWithoutTheirTensors) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  begin(Transport::pipe, std::to_string(pipe[1]), std::to_string(pipe[0]));
  send_loan(1, nullptr);
  expect_bytes(receive(input_).get(), 4000, 1);
  send_loan(2, &kMatrix);  // no pool: it is copied
  expect_bytes(receive(input_).get(), 4000, 2);
  Owned<gantry_pool> pool;
  EXPECT_REFUSED(gantry_producer_pool(output_.get(), Out(pool)), GANTRY_UNSUPPORTED, "no pool", "");
}

TEST_F(Stages, SayWhatTheyHaveNot) {
  begin(Transport::gantry, "frames-0", "frames-0");
  std::uint64_t ticket = 0;
  int descriptor = 0;
  EXPECT_REFUSED(gantry_send_async(output_.get(), nullptr, 0, 0, nullptr, &ticket),
                 GANTRY_UNSUPPORTED, "gantry_send_async: a stage's output does not have it",
                 "gantry_send()");
  EXPECT_REFUSED(gantry_consumer_descriptor(input_.get(), &descriptor), GANTRY_UNSUPPORTED,
                 "gantry_consumer_descriptor", "thread");
  EXPECT_EQ(descriptor, -1);
  Owned<gantry_consumer> other;
  EXPECT_REFUSED(gantry_stage_input(runtime_.get(), "frame", Out(other)), GANTRY_NOT_FOUND, "frame",
                 "'frames'");
}

// Nobody else keeps images in a run's directory, so nothing is waited for.
TEST_F(Stages, RefuseAnImageThatTheRunDoesNotKeep) {
  ::setenv("GANTRY_DIR", folder_.c_str(), 1);
  ::setenv(kStageEndpointsVariable, encode_stage_endpoints({}).c_str(), 1);
  ::setenv(kStageImagesVariable, "bias,weight", 1);
  Owned<gantry_image> image;
  EXPECT_REFUSED(gantry_image_attach(runtime_.get(), "weights", kPatienceNs, Out(image)),
                 GANTRY_NOT_FOUND, "'weights'", "bias,weight");
  ::unsetenv(kStageEndpointsVariable);  // no stage: it waits for a keeper
  EXPECT_REFUSED(gantry_image_attach(runtime_.get(), "weights", 0, Out(image)), GANTRY_TIMED_OUT,
                 "'weights'", "gantry keep");
}

}  // namespace
}  // namespace gantry::c::test
