// Package ranks watches the training processes of a pod from outside, for programs that are not their parent. Their
// parent is a launcher, which reaps them: torchrun, or DeepSpeed's launcher on a worker. Each of these processes has a
// rank and is called by it.
//
// All ranks of the pod start together, in a round. A launcher can start another round after all ranks have ended.
package ranks

import (
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Variables that launchers set for each rank. DeepSpeed's launcher does not set the second one.
const (
	envRank           = "RANK"
	envLocalWorldSize = "LOCAL_WORLD_SIZE" // number of ranks in the pod
)

// searchInterval is the default of Watcher.SearchInterval. missingLong is the time after which it applies in any case
// while a part of the ranks is missing. lookInterval is the time between two checks for ranks that
// have ended, if the kernel does not tell their end. The checks must be frequent, because a rank that has ended shows
// its exit code only while it is a zombie: torchrun reaps it after 0.1 s, and DeepSpeed's launcher on a worker after
// one second.
const (
	searchInterval = 500 * time.Millisecond
	missingLong    = 10 * time.Second
	lookInterval   = 50 * time.Millisecond
)

// Event is the start or the end of a rank.
type Event struct {
	Rank int
	// Round is the number of the round, from 0.
	Round int
	// Variables are the values of RANK, LOCAL_WORLD_SIZE and Watcher.Variables in the environment of a rank that starts.
	Variables map[string]string
	// Ended is true for the end of the rank.
	Ended bool
	// Code is the exit code of a rank that has ended, or the negative number of the signal that ended it. It is nil if
	// the launcher reaped the rank first.
	Code *int
}

// Watcher finds the ranks of a launcher. A rank has the variable RANK in its environment. A process that a rank
// starts inherits it, so a process with the same variables as its parent is not a rank.
type Watcher struct {
	// Among reports whether a process can be a rank.
	Among func(Process) bool
	// Size is the number of ranks in a round. 0 means the variable LOCAL_WORLD_SIZE of the ranks.
	Size int
	// Variables are the names of more environment variables for the starts of ranks.
	Variables []string
	// SearchInterval is the time between two searches of all processes for ranks. A rank that runs for a shorter time can
	// remain unseen. 0 means 500 ms, which also applies if ranks are still missing long after the first one was found.
	SearchInterval time.Duration
}

// Events returns the starts and ends of ranks until the channel done is closed. Events searches for ranks until it has
// found all ranks of the round, and again when all of them have ended. Between the two, it waits for ends without
// reading /proc, unless the kernel has no pidfds.
func (w Watcher) Events(done <-chan struct{}) iter.Seq[Event] { return w.events(done, pidfdOpen) }

// events is Events with the function that opens the pidfd of a process.
func (w Watcher) events(done <-chan struct{}, open func(pid int) (int, error)) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		// The end of the pipe ends a wait. Without a pipe, both files are nil, which their methods allow, and each wait is
		// short.
		reader, writer, _ := os.Pipe()
		stopped := make(chan struct{})
		go func() {
			select {
			case <-done:
			case <-stopped:
			}
			_ = writer.Close()
		}()
		s := watch{Watcher: w, open: open}
		defer func() {
			close(stopped)
			_ = reader.Close()
			s.close()
		}()
		for {
			started := s.search()
			// The ends come after the search, so that the end of a round precedes the start of the next.
			for _, e := range s.takeEnded() {
				if !yield(e) {
					return
				}
			}
			for _, r := range started {
				if !yield(s.add(r)) {
					return
				}
			}
			select {
			case <-done:
				return
			default:
				s.wait(int32(reader.Fd())) //nolint:gosec // a small number, or -1
			}
		}
	}
}

// watch is the state of a watcher while it reports events.
type watch struct {
	Watcher

	open       func(pid int) (int, error)
	round      int
	size       int       // number of ranks in the round, 0 if unknown
	began      time.Time // when the first rank of the round was found
	found      int       // number of ranks of the round that have been found
	running    []rank
	nextSearch time.Time
}

// rank is a rank that runs.
type rank struct {
	pid, number, size int
	variables         map[string]string
	pidfd             int32 // -1 if there is none
}

// isSearching reports whether ranks are missing that can start at any time.
func (s *watch) isSearching() bool { return len(s.running) == 0 || s.found < s.size }

// search returns the ranks that were not known before. It does nothing if no rank is missing, or if the last search
// was less than the interval ago.
func (s *watch) search() (found []rank) {
	if !s.isSearching() || time.Now().Before(s.nextSearch) {
		return nil
	}
	s.nextSearch = time.Now().Add(s.interval())
	names := append([]string{envRank, envLocalWorldSize}, s.Variables...)
	for _, p := range Processes(s.Among) {
		if slices.ContainsFunc(s.running, func(r rank) bool { return r.pid == p.ID }) {
			continue
		}
		own := variables(p.ID, names)
		number, err := strconv.ParseUint(own[envRank], 10, 31)
		if err != nil || maps.Equal(own, variables(p.Parent, names)) {
			continue
		}
		r := rank{pid: p.ID, number: int(number), size: s.Size, variables: own}
		if size, err := strconv.ParseUint(own[envLocalWorldSize], 10, 31); err == nil && s.Size == 0 {
			r.size = int(size)
		}
		found = append(found, r)
	}
	return found
}

// interval returns the time until the next search.
func (s *watch) interval() time.Duration {
	if s.SearchInterval == 0 || len(s.running) > 0 && time.Since(s.began) > missingLong {
		return searchInterval
	}
	return s.SearchInterval
}

// add begins to watch the rank, and returns its start. The rank begins a round if no other rank runs.
func (s *watch) add(r rank) Event {
	if len(s.running) == 0 {
		if s.found > 0 {
			s.round++
		}
		s.found, s.size, s.began = 0, r.size, time.Now()
	}
	s.found++
	r.pidfd = -1
	if fd, err := s.open(r.pid); err == nil {
		r.pidfd = int32(fd) //nolint:gosec // a small number
	}
	s.running = append(s.running, r)
	return Event{Rank: r.number, Round: s.round, Variables: r.variables}
}

// takeEnded removes the ranks that have ended from those that run, and returns their ends.
func (s *watch) takeEnded() (ends []Event) {
	s.running = slices.DeleteFunc(s.running, func(r rank) bool {
		if !r.hasEnded() {
			return false
		}
		r.close()
		end := Event{Rank: r.number, Round: s.round, Ended: true}
		// If the parent has reaped the rank, another process can have its ID.
		if p, exists := readProcess(r.pid); exists && p.IsZombie() {
			end.Code = new(p.code())
		}
		ends = append(ends, end)
		return true
	})
	return ends
}

// wait returns when a rank ends, when the pipe ends, or when it is time to search or look again. It can return early.
func (s *watch) wait(pipe int32) {
	limit := -1 // none
	if s.isSearching() {
		limit = max(int(time.Until(s.nextSearch).Milliseconds())+1, 0)
	}
	files := []unix.PollFd{{Fd: pipe}}
	for _, r := range s.running {
		files = append(files, r.polled())
	}
	if slices.ContainsFunc(files, func(f unix.PollFd) bool { return f.Fd < 0 }) { // Poll ignores it
		limit = int(lookInterval.Milliseconds())
	}
	_, _ = unix.Poll(files, limit) // an error means that a signal interrupted the wait
}

func (s *watch) close() {
	for _, r := range s.running {
		r.close()
	}
}

func (r rank) polled() unix.PollFd { return unix.PollFd{Fd: r.pidfd, Events: unix.POLLIN} }

func (r rank) hasEnded() bool {
	if r.pidfd < 0 {
		p, exists := readProcess(r.pid)
		return !exists || p.IsZombie()
	}
	n, _ := unix.Poll([]unix.PollFd{r.polled()}, 0)
	return n > 0
}

func (r rank) close() {
	if r.pidfd >= 0 {
		_ = unix.Close(int(r.pidfd))
	}
}
