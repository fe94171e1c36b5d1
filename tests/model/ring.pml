/* One ring between a producer and a consumer, both asleep when there is nothing to do, either dead
 * or gone at any step: src/core/sync/spsc/sequence_ring.hpp, wait_flag.hpp, CreditGate::wait_until()
 * (channel/producer/credit_gate.hpp), Consumer::Impl::receive(), wait_any() (consumer.cpp),
 * ReceiveQueue::copy_small(), look() (receive_queue.cpp).
 *
 * Messages are small: they lie in the record. A loan may be published without waiting for room, as
 * Producer::publish(Loan) does; that is why there are twice as many cells as credits.
 *
 * With PAUSES the consumer's user may stop asking after any message: it stays joined, awake, and
 * does nothing more. What mark() stores stays in its store buffer for a while, so that the look
 * behind it can come before it; every other store of the consumer is seq_cst.
 *
 * Properties. Records are taken once, in order, never torn (assertions in take()). A cell is
 * overwritten only when its record was taken (I3). `closed` is said exactly at the end, `peer_gone`
 * only after all that was published has been taken. close() returns only when all was taken.
 * Nobody sleeps for ever (invalid end states); the producer of a consumer that pauses may, but only
 * while the ring is full, or the stream not taken to its end.
 */
#ifndef DEPTH
#define DEPTH 1             /* credits */
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#define LOANS DEPTH
#define CELLS (2 * DEPTH)   /* cells_for() */
#define REPORT_AFTER DEPTH  /* at most: the code's is half of it, which wakes the producer sooner */
#if REPORT_AFTER > 1
#define MARKS               /* else every message is reported at once */
#endif

/* A process that is killed takes no further step. Without DEATH there are fewer states, so that more
 * messages can go. */
#ifdef DEATH
#define MORTAL(dead) unless { dead }
#else
#define MORTAL(dead)
#endif

/* ---- shared memory ---- */
byte sequence[CELLS], record[CELLS];            /* RingPage::ring */
byte end;                                       /* RingPage::end [E] */
byte taken;                                     /* ConsumerPage::taken [T] */
byte marked;                                    /* ... in the consumer's store buffer; 0: nothing */
byte producer_intent, consumer_intent;
bool producer_event, consumer_event;            /* sticky */

/* ---- what the kernel knows ---- */
bool producer_dead, consumer_dead, hung_up;

/* ---- the producer's process: under the channel's lock ---- */
bool lost;

/* ---- what the properties speak of ---- */
bool paused;                                    /* the consumer's user asks no more */
bool marked_before;                             /* `marked` is older than the newest publication */

inline must_wake(intent) {                      /* WakeFilter::must_wake(); its own word is private */
  atomic {
    must = intent % 2 == 1 && rang_for != intent;                /* [D4] */
    if
    :: must -> rang_for = intent
    :: else
    fi
  }
}

inline ring_consumer() {                        /* ConsumerState::wake() */
  must_wake(consumer_intent);
  if
  :: atomic { must -> consumer_event = true }
  :: else
  fi
}

inline ring_producer() {                        /* ConsumerCore::ring_producer() */
  must_wake(producer_intent);
  if
  :: atomic { must -> producer_event = true }
  :: else
  fi
}

/* ---- producer ---- */

/* wait_until(): `ready` is an expression over published and taken_seen, `truth` the same over taken.
 * The first sleep ends after kMarkTime at the latest: by then what the consumer had marked before our
 * newest publication has left its store buffer. Whoever marks later sees the publication. [F] */
inline wait_until(ready, truth) {
  marks_came = false;
  do
  :: taken_seen = taken;                        /* RingWriter::refresh() [T] [D2] */
     if
     :: (ready) -> break
     :: else
     fi;
     if
     :: lost -> goto gone                       /* check_consumers() */
     :: else
     fi;
#ifdef MUTANT_PRODUCER_INTENT_AFTER_LOOK
     taken_seen = taken;
     gone_seen = lost;
     producer_intent++;
#else
     producer_intent++;                         /* announce() [D1] */
     taken_seen = taken;                        /* has_news() [D2] */
     gone_seen = lost;
#endif
     if
     :: (ready) || gone_seen -> producer_intent++
     :: else ->
        if                                      /* poll() */
        :: producer_event ->
           producer_intent++;
           producer_event = false               /* drain() */
#if defined(MARKS) && !defined(MUTANT_NO_SECOND_LOOK)
        :: !marks_came && !marked_before ->    /* kMarkTime is over [F] */
           marks_came = true;
           producer_intent++
#endif
#ifdef PAUSES
        :: paused && !(truth) -> goto gone      /* it sleeps on, and rightly so */
#endif
        fi
     fi
  od
}

inline publish() {                              /* RingWriter::publish(), RecordToSend::write() */
  atomic {
    published++;
    cell = published % CELLS;
    assert(published <= CELLS || taken >= published - CELLS)  /* I3 */
  };
#ifdef MUTANT_SEQUENCE_BEFORE_RECORD
  sequence[cell] = published;
#endif
#ifdef MUTANT_WRITER_LOOKS_FIRST
  must_wake(consumer_intent);
#endif
  record[cell] = published;
#ifndef MUTANT_SEQUENCE_BEFORE_RECORD
  atomic { sequence[cell] = published; marked_before = marked != 0 };    /* [P] [D3] */
#endif
#ifdef MUTANT_WRITER_LOOKS_FIRST
  if
  :: atomic { must -> consumer_event = true }
  :: else
  fi
#else
  ring_consumer()
#endif
}

proctype Producer() {
  byte published, taken_seen, cell, loans = LOANS;
  byte rang_for;                                /* WakeFilter::last_ */
  bool gone_seen, must, marks_came;
  {
    do
    :: published < MESSAGES && loans > 0 && !lost ->
       loans--;
       publish()                                /* Producer::Impl::publish(Loan) */
    :: published < MESSAGES ->                  /* send_small(): await_room(), then publish */
#ifdef MUTANT_ONE_CREDIT_TOO_MANY
       wait_until(published - taken_seen <= DEPTH, published - taken <= DEPTH);
#else
       wait_until(published - taken_seen < DEPTH, published - taken < DEPTH);
#endif
       publish()
    :: published == MESSAGES -> break
    od;
#ifdef MUTANT_END_ONE_EARLY
    end = published;
#else
    atomic { end = published + 1; marked_before = marked != 0 };         /* end_stream() [E] */
#endif
#ifndef MUTANT_END_WITHOUT_WAKE
    ring_consumer();
#endif
    wait_until(published == taken_seen, published == taken);     /* close(): all_taken() */
    assert(taken == MESSAGES);
gone: skip
  } MORTAL(producer_dead)
}

/* The acceptor sees the consumer's hang-up or its pidfd: ConsumerSet::left(), then ConsumerSet::wake_producer(). */
proctype Acceptor() {
end_no_news:
  {
    (hung_up || consumer_dead);
    lost = true;
#ifndef MUTANT_LEFT_WITHOUT_RING
    producer_event = true
#endif
  } MORTAL(producer_dead)
}

/* ---- consumer ---- */

#define IS_PUBLISHED(places) (sequence[(own + (places)) % CELLS] == own + (places))

inline take() {                                 /* copy_small() */
#ifdef MUTANT_TAKEN_BEFORE_COPY
  taken = own + 1;
#endif
  atomic {
    assert(record[(own + 1) % CELLS] == own + 1);
    own++;
    unreported++
  };
#ifdef MARKS
#ifdef MUTANT_MARK_AFTER_LOOK
  look_at_fullness();
  mark();
#else
  mark();                                       /* [F] */
  look_at_fullness();                           /* behind the mark, at least in the program */
#endif
  if
  :: unreported >= REPORT_AFTER || is_full -> report()   /* its writer may sleep, and we may never */
  :: else                                                /* come back */
  fi
#else
  report()
#endif
}

inline look_at_fullness() {
  is_full = IS_PUBLISHED(DEPTH - 1);            /* [P] */
#ifndef MUTANT_PAUSES_AT_THE_END
  is_full = is_full || end != 0                 /* is_ending() [E] */
#endif
}

inline mark() {                                 /* RingReader::mark() [T]; nobody is woken */
  atomic {
    if                                          /* stores leave the buffer in their order */
    :: marked != 0 -> taken = marked
    :: else
    fi;
    marked = own;
    marked_before = false
  }
}

inline report() {                               /* report_taken() */
  atomic {                                      /* RingReader::report() [T] [D3] */
    unreported = 0;
    taken = own;
    marked = 0;
    marked_before = false
  };
#ifndef MUTANT_REPORT_WITHOUT_RING
  ring_producer()
#endif
}

proctype StoreBuffer() {
end_empty:
  do
  :: atomic { marked != 0 -> taken = marked; marked = 0; marked_before = false }
  od
}

inline look() {                                 /* ready() [P] [D2], then at_end() [E] [D2] */
  there = sequence[(own + 1) % CELLS] == own + 1;
  if
  :: atomic { !there -> ended = end != 0 && own + 1 >= end }
  :: else -> ended = false
  fi
}

proctype Consumer() {
  byte own, unreported;
  byte rang_for;                                /* WakeFilter::last_ */
  bool there, ended, gone, rang, died, must, is_full;
  {
    do
    :: look();
       if
       :: there ->
          take();
#ifdef PAUSES
          if
          :: atomic { true -> paused = true; goto over }         /* its user has enough for now */
          :: true
          fi
#endif
       :: else ->
#ifndef MUTANT_SLEEPS_ON_UNREPORTED
          if                                    /* wait_any() */
          :: unreported > 0 -> report()
          :: else
          fi;
#endif
          look();                               /* look(): once more, then what ended it */
          if
          :: there
          :: !there && ended ->
             assert(own == MESSAGES);           /* `closed`; it stays joined */
             goto over
          :: !there && !ended && gone ->
             there = sequence[(own + 1) % CELLS] == own + 1;
             assert(!there);                    /* `peer_gone` */
             goto over
          :: else ->
#ifdef MUTANT_CONSUMER_INTENT_AFTER_LOOK
             look();
             consumer_intent++;
#else
             consumer_intent++;                 /* announce() [D1] */
             look();                            /* has_news() [D2] */
#endif
             if
             :: there || ended -> consumer_intent++
             :: else ->
                atomic {                        /* poll(): event, socket, pidfd */
                  (consumer_event || producer_dead);
                  rang = consumer_event;
                  died = producer_dead
                };
                consumer_intent++;
#ifdef MUTANT_GONE_BEFORE_LOOK
                if
                :: died ->
                   there = sequence[(own + 1) % CELLS] == own + 1;
                   assert(!there);
                   goto over
                :: else
                fi;
#endif
                if                              /* examine_peer() */
                :: rang -> consumer_event = false
                :: else
                fi;
                if
                :: died -> gone = true
                :: else
                fi
             fi
          fi
       fi
  #ifdef DEATH
    :: true -> break                            /* it has enough: Consumer::~Consumer() */
#endif
    od;
#ifdef DEATH
    if
    :: unreported > 0 -> report()               /* leave() */
    :: else
    fi;
    hung_up = true;
#endif
over: skip
  } MORTAL(consumer_dead)
}

/* kill -9, at any step or never */
proctype Reaper() {
#ifdef DEATH
  if
  :: producer_dead = true
  :: consumer_dead = true
  :: skip
  fi
#else
  skip
#endif
}

init {
  atomic { run Producer(); run Acceptor(); run Consumer(); run StoreBuffer(); run Reaper() }
}
