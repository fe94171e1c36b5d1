/* Taking back what a slow reader has not taken: src/core/sync/spsc/revocable_ring.hpp,
 * Publisher::take_back_surplus(), ConsumerState::take_back_oldest() (channel/fan_out/publisher.cpp, consumer_state.cpp),
 * ReceiveQueue::claim_next(), pass_over() (channel/consumer/receive_queue.cpp).
 *
 * Every message has a slot. The producer never waits: it takes the oldest back. The consumer keeps
 * up to HANDS messages in hand and reads them in place, byte by byte so to speak.
 *
 * Properties. A slot's memory is not written while a message in it is in the consumer's hands or
 * may be (assertions at reading). Messages come once, in order, never torn. A release frees nothing
 * but what was lent under that number. The newest message comes. When all is over every slot is
 * free and each message was either had or missed (assertions in the end). The producer always finds
 * a slot (assertion). Nobody sleeps for ever (invalid end states).
 */
#ifndef DEPTH
#define DEPTH 1             /* messages that may be unread */
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef CELLS
#define CELLS (DEPTH + 1)   /* the fewest there may be: the sooner one is overwritten */
#endif
#define HANDS 1             /* while it has so many it takes no more */
#define SLOTS (DEPTH + HANDS + 2)   /* in hand, unread, in doubt, the newest */

#ifdef DEATH
#define MORTAL(dead) unless { dead }
#else
#define MORTAL(dead)
#endif

/* ---- shared memory ---- */
byte sequence[CELLS];                           /* RingPage::ring; 0 while overwritten */
byte record_number[CELLS], record_slot[CELLS];  /* two words of a record: a copy can be torn */
byte revoked;                                   /* RingPage::revoked [V] */
byte taken;                                     /* ConsumerPage::taken [T] [V] */
byte released[SLOTS];                           /* ConsumerPage::released [R] */
byte memory[SLOTS];                             /* payloads */
byte consumer_intent;
bool consumer_event;

/* ---- what the kernel knows; what the properties need ---- */
bool consumer_dead;
byte newest, had, missed;
byte lent[SLOTS];                               /* Slot::number; 0: free */
bool hands;                                     /* the consumer has something in hand */

inline reclaim() {                              /* ConsumerSet::reclaim() [R] */
  atomic {
    slot = 0;
    do
    :: slot < SLOTS ->
       if
#ifdef MUTANT_ANY_RELEASE_COUNTS
       :: lent[slot] != 0 && released[slot] != 0 -> lent[slot] = 0
#else
       :: lent[slot] != 0 && released[slot] == lent[slot] -> lent[slot] = 0
#endif
       :: else
       fi;
       slot++
    :: else -> break
    od;
    slot = 0
  }
}

inline refresh() {                              /* RevocableWriter::refresh() [T] [V2] */
  atomic {
    seen = taken;
    assert(seen <= published);
    if
    :: seen > floor -> floor = seen
    :: else
    fi
  }
}

inline take_back() {                            /* take_back_oldest(), needs() */
  oldest = floor + 1;
  number = record_number[oldest % CELLS];
  slot = record_slot[oldest % CELLS];
#ifdef MUTANT_REVOKED_AFTER_LOOK
  refresh();
  revoked = oldest;
#else
  revoked = oldest;                             /* [V1] */
  refresh();                                    /* [V2] */
#endif
  if
#ifdef MUTANT_DOUBT_IS_CERTAIN
  :: true ->
#else
  :: seen < oldest ->
#endif
     atomic {
       if
       :: floor < oldest -> floor = oldest
       :: else
       fi;
       if
#ifdef MUTANT_SLOT_WITHOUT_NUMBER
       :: true -> lent[slot] = 0
#else
       :: lent[slot] == number -> lent[slot] = 0        /* needs() */
       :: else
#endif
       fi
     }
  :: else -> reclaim()                          /* in doubt: the consumer's until it releases */
  fi
}

inline publish() {
  atomic {                                      /* SlotTable::take() */
    slot = 0;
    do
    :: slot < SLOTS && lent[slot] != 0 -> slot++
    :: else -> break
    od;
    assert(slot < SLOTS)
  };
  memory[slot] = published + 1;                 /* the copy; before the lending counts */
  atomic { lent[slot] = published + 1; cell = (published + 1) % CELLS };
#ifndef MUTANT_NO_MARK
  sequence[cell] = 0;                           /* publish_over() [W] */
#endif
  record_slot[cell] = slot;
  record_number[cell] = published + 1;
  atomic { published++; newest = published; sequence[cell] = published };  /* [P] */
  if                                            /* ConsumerState::wake() [D4] */
  :: atomic { consumer_intent % 2 == 1 -> consumer_event = true }
  :: else
  fi
}

proctype Producer() {
  byte published, floor, seen, oldest, number, slot, cell;
  do
  :: published < MESSAGES ->
     refresh();
     reclaim();
     publish();
     do
     :: published - floor > DEPTH -> take_back()        /* take_back_surplus() */
     :: else -> break
     od
  :: else -> break
  od;
  (taken == MESSAGES || consumer_dead);         /* nothing more happens that could wake it */
  consumer_event = true;                        /* end_stream() */
  if                                            /* close(): all_taken(), or it died */
  :: consumer_dead
  :: atomic {
       taken == MESSAGES && (had + missed == MESSAGES) && !hands ->
       refresh(); reclaim();
       slot = 0;
       do
       :: slot < SLOTS -> assert(lent[slot] == 0); slot++
       :: else -> break
       od
     }
  fi
}

/* Of a message that the consumer says it is done with though it never had it. */
inline pass_over() {
#ifdef MUTANT_PASSED_OVER_SILENTLY
  skip
#else
  released[in_slot] = in_number
#endif
}

inline copy_whole(which) {                      /* whole: is it there, and not mixed */
  in_cell = (which) % CELLS;
  whole = sequence[in_cell] == which;
  if
  :: whole ->
     in_slot = record_slot[in_cell];
     in_number = record_number[in_cell];
#ifndef MUTANT_MIXED_COPY
     whole = sequence[in_cell] == which         /* [W] */
#endif
  :: else
  fi
}

inline skip_to(last) {                          /* I7 */
#ifdef MUTANT_TAKEN_BEFORE_PASSING_OVER
  if
  :: last > own -> taken = last
  :: else
  fi;
#endif
  do
  :: own < last ->
     copy_whole(own + 1);
     if
     :: whole -> pass_over()
     :: else
     fi;
     atomic { own++; missed++ }
  :: else -> break
  od
}

proctype Consumer() {
  byte own, up_to, in_cell, in_slot, in_number, held_slot, held_number, last;
  bool whole, there;
  {
    do
    :: hands ->                                 /* reads in place, then Message::release() */
       assert(memory[held_slot] == held_number);
       assert(memory[held_slot] == held_number);
       released[held_slot] = held_number;       /* [R] */
       hands = false
    :: !hands ->                                /* RevocableReader::claim() */
       up_to = revoked;
       skip_to(up_to);
#ifdef SKIPS
       if                                       /* one behind the oldest, by its own choice */
       :: sequence[(own + 2) % CELLS] == own + 2 -> up_to = own + 1; skip_to(up_to)
       :: true
       fi;
#endif
       copy_whole(own + 1);
       if
       :: whole ->
#ifdef MUTANT_CLAIM_AFTER_LOOK
          up_to = revoked;
          atomic { own++; taken = own };
#else
          atomic { own++; taken = own };        /* [V3] */
          up_to = revoked;                      /* [V4] */
#endif
          if
          :: atomic { up_to < own ->
               assert(in_number == own && in_number > last);   /* whole, in order, once */
               last = in_number; had++;
               held_slot = in_slot; held_number = in_number; hands = true }
          :: else ->
#ifndef MUTANT_DOUBT_WITHOUT_RELEASE
             pass_over();
#endif
             missed++
          fi
       :: !whole && own == MESSAGES -> break    /* at_end() */
       :: !whole && own != MESSAGES ->
#ifdef MUTANT_INTENT_AFTER_LOOK
          up_to = revoked;
          there = sequence[((up_to > own -> up_to : own) + 1) % CELLS] ==
                  (up_to > own -> up_to : own) + 1;
          consumer_intent++;
#else
          consumer_intent++;                    /* announce() [D1] */
          up_to = revoked;                      /* can_claim() [D2] */
          there = sequence[((up_to > own -> up_to : own) + 1) % CELLS] ==
                  (up_to > own -> up_to : own) + 1;
#endif
          if
          :: there
          :: else -> (consumer_event); consumer_event = false
          fi;
          consumer_intent++
       fi
    od;
    assert(last == newest && newest == MESSAGES)
  } MORTAL(consumer_dead)
}

proctype Reaper() {
#ifdef DEATH
  consumer_dead = true
#else
  skip
#endif
}

init {
  atomic { run Producer(); run Consumer(); run Reaper() }
}
