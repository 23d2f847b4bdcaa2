#include "runtime/job/roster.h"

#include <algorithm>
#include <fmt/format.h>

namespace dtc::job {

const Attendee *Roster::anybody() const {
  auto taken = std::ranges::find_if(attendees, &Attendee::isTaken);
  return taken == attendees.end() ? nullptr : &*taken;
}

bool Roster::isMixed(const Hello &hello) const {
  const Attendee *other = anybody();
  return hello.world() != world() || (other && other->hello.program() != hello.program());
}

std::string Roster::objection(const Hello &hello, uint32_t generation) const {
  if (hello.version() != ProtocolVersion)
    return fmt::format(
        "it was made by another version of dtc (protocol {}, the job's is {}); compile all ranks' program "
        "with one dtc",
        hello.version(), ProtocolVersion);
  if (hello.generation() != generation)
    return fmt::format("it belongs to start {} of the job, which is at start {} now", hello.generation() + 1,
                       generation + 1);
  if (hello.world() != world())
    return fmt::format("it was started as one of {} ranks, the job has {}", hello.world(), world());
  if (hello.rank() < 0 || hello.rank() >= world())
    return fmt::format("its rank {} is not one of 0 to {}", hello.rank(), world() - 1);
  const Attendee &attendee = attendees[static_cast<size_t>(hello.rank())];
  if (attendee.isTaken())
    return fmt::format("rank {} has already joined, as process {} on {} ({}); it was started twice", hello.rank(),
                       attendee.hello.process(), attendee.hello.host_name(), attendee.from);
  if (const Attendee *other = anybody(); other && other->hello.program() != hello.program())
    return fmt::format("it runs another program ({}) than rank {} on {} ({}); give all hosts the same file",
                       hello.program(), other->hello.rank(), other->hello.host_name(), other->hello.program());
  return "";
}

bool Roster::isComplete() const { return std::ranges::all_of(attendees, &Attendee::isTaken); }

int Roster::firstMissing() const {
  return static_cast<int>(std::ranges::find_if_not(attendees, &Attendee::isTaken) - attendees.begin());
}

std::string Roster::missing() const {
  constexpr int Named = 8;
  std::string text;
  int count = 0;
  for (int rank = 0; rank < world(); ++rank)
    if (!attendees[static_cast<size_t>(rank)].isTaken() && count++ < Named)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return fmt::format("rank{} {}{}", count == 1 ? "" : "s", text,
                     count > Named ? fmt::format(" and {} more", count - Named) : "");
}

Table Roster::table() const {
  Table table;
  for (const Attendee &attendee : attendees) {
    Seat &place = *table.add_seats();
    place.set_host(attendee.hello.host());
    place.set_host_name(attendee.hello.host_name());
    place.set_links(attendee.hello.links());
    place.set_process(attendee.hello.process());
  }
  table.set_nonce(std::string(textOf(randomKey())));
  return table;
}

} // namespace dtc::job
