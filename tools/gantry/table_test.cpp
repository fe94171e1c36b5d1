#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "output.hpp"

namespace gantry::cli {
namespace {

using enum Table::Align;

Table of_a_channel() {
  Table table({{"CHANNEL", left}, {"BYTES", right}, {"RATE", right}, {"WHY", left}});
  table.add({"frames", "12 MiB", "3.21 GB/s", "nobody reads it"});
  table.add({"a", "1 B", "1 B/s", ""});
  return table;
}

TEST(TableText, IsOneTableWhereItFits) {
  const std::string whole =
      "CHANNEL   BYTES       RATE  WHY\n"
      "frames   12 MiB  3.21 GB/s  nobody reads it\n"
      "a           1 B      1 B/s\n";
  EXPECT_EQ(of_a_channel().text(Table::kUnlimited), whole);
  EXPECT_EQ(of_a_channel().text(43), whole);
}

TEST(TableText, ColumnsWithoutRoomStandBelowBesideTheFirst) {
  EXPECT_EQ(of_a_channel().text(42),
            "CHANNEL   BYTES       RATE\n"
            "frames   12 MiB  3.21 GB/s\n"
            "a           1 B      1 B/s\n"
            "\n"
            "CHANNEL  WHY\n"
            "frames   nobody reads it\n"
            "a\n");
}

TEST(TableText, LongTextIsWrappedInItsColumn) {
  Table table({{"ENGINE", left}, {"WHY", left}, {"N", right}});
  table.add({"dsa", "there is no device of that kind in this machine at all", "1"});
  EXPECT_EQ(table.text(40),
            "ENGINE  WHY                            N\n"
            "dsa     there is no device of that     1\n"
            "        kind in this machine at all\n");
}

TEST(TableText, AWordThatIsTooLongStaysWhole) {
  Table table({{"A", left}, {"WHERE", left}});
  table.add({"x", "/a/path/that/nobody/would/want/to/see/broken in two"});
  EXPECT_EQ(table.text(30),
            "A  WHERE\n"
            "x  /a/path/that/nobody/would/want/to/see/broken\n"
            "   in two\n");
}

}  // namespace
}  // namespace gantry::cli
