package explore

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"tensorstack.dev/jobs/kit/driver"
	"tensorstack.dev/jobs/kit/model"
)

// found is the result of an exploration.
type found struct {
	// states, steps and rests are the numbers of states, of steps, and of states at rest.
	states, steps, rests int
	// most is the maximum number of faults in one execution.
	most int
	// wrong is the counterexample: the steps of the execution and the violation. Empty means that there is none.
	wrong string
}

// search is a running exploration, with the states that it has reached so far.
type search struct {
	x    *exploration
	most int

	shards [64]struct {
		sync.Mutex

		ids map[digest]uint32
	}

	mu sync.Mutex
	// nodes are all states that were reached, by number.
	nodes []node
	// names are the names of actions by number.
	names   []string
	numbers map[string]uint16
	// frontier are the states whose successors are not computed yet. busy is the number of workers that can still add
	// states.
	frontier []numbered
	busy     int
	more     sync.Cond
	found    found
}

// maxStates returns the limit on the number of states. If the controller is correct, no exploration reaches the
// limit. The memory suffices for that many states.
func maxStates(most int) int {
	if most <= 2 && !*everything {
		return 1_000_000
	}
	return 100_000_000
}

// node is the part of a state that is kept after the successors of the state were computed.
type node struct {
	// parent is the state from which this state was first reached, and action is the action that led from the parent to
	// this state.
	parent uint32
	action uint16
	// rests is true if nothing happens by itself in the state. Otherwise quiet is the next state without another fault.
	rests bool
	quiet uint32
}

type numbered struct {
	id    uint32
	state *state
}

// explore checks every execution of the job with at most the given number of faults. It returns an error if the
// controller cannot be set up.
func (x *exploration) explore(k model.Kind, most int) (found, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // collections free little, because most memory stays in use
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 30))
	s := &search{x: x, most: most, numbers: map[string]uint16{}, busy: runtime.GOMAXPROCS(0)}
	s.more.L = &s.mu
	for i := range s.shards {
		s.shards[i].ids = map[digest]uint32{}
	}
	machines := make([]*machine, runtime.GOMAXPROCS(0))
	for i := range machines {
		var err error
		if machines[i], err = newMachine(k, explorationOptions()); err != nil {
			return found{}, err
		}
	}
	first := x.first(machines[0])
	s.add(machines[0].encoder.digest(first), first, 0, "the user creates the job")
	var wg sync.WaitGroup
	for _, m := range machines {
		wg.Go(func() {
			for from := s.next(); from != nil; from = s.next() {
				s.expand(m, *from)
			}
		})
	}
	wg.Wait()
	s.found.states, s.found.most = len(s.nodes), most
	if s.found.wrong == "" {
		s.checkQuiet()
	}
	return s.found, nil
}

// first returns the state directly after the user has created the job.
func (x *exploration) first(m *machine) *state {
	nothing := model.Objects{}
	s := &state{
		live: model.Snapshot{Objects: nothing}, now: model.Birth, shape: &x.shape,
		State: driver.State{Cache: model.NewCache(nothing), Dirty: true},
	}
	next, _ := m.successor(s, action{do: func(m *machine) {
		if x.shape.Quota > 0 {
			m.must(func(c *model.Cluster) error { return c.Create(model.NewQuota(x.shape.Quota)) })
		}
		m.must(func(c *model.Cluster) error { return c.Create(m.Kind.Job(x.shape)) })
	}})
	return next
}

// next returns a state to expand. It returns nil if there are no more states or a counterexample was found. The newest
// state goes first, which keeps the frontier small.
func (s *search) next() *numbered {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	for len(s.frontier) == 0 && s.busy > 0 && s.found.wrong == "" {
		s.more.Wait()
	}
	if len(s.frontier) == 0 || s.found.wrong != "" {
		s.more.Broadcast()
		return nil
	}
	s.busy++
	last := len(s.frontier) - 1
	next := s.frontier[last]
	s.frontier[last] = numbered{}
	s.frontier = s.frontier[:last]
	return &next
}

// expand computes and checks all successors of a state.
func (s *search) expand(m *machine, from numbered) {
	quiet, order := uint32(0), 0
	actions := options{exploration: s.x, most: s.most}.actions(from.state)
	for _, a := range actions {
		next, wrong := m.successor(from.state, a)
		if len(wrong) > 0 {
			s.fail(from.id, a.name, strings.Join(wrong, "\n"))
			return
		}
		if next.spent.total() > s.most {
			continue // the action has two faults, and only one more fault is allowed
		}
		id := s.add(m.encoder.digest(next), next, from.id, a.name)
		if a.happensByItself() && (order == 0 || a.quiet < order) {
			quiet, order = id, a.quiet
		}
	}
	if order == timePasses && onlyPolls(m, from.state) {
		order = 0
	}
	if order == timePasses && waitsTooLong(m.Kind, from.state) {
		s.fail(from.id, "time passes", "a pod waits for a node that it avoids, but the job is not requeued soon")
		return
	}
	if order == 0 {
		if wrong := s.x.rest(m, from.state); len(wrong) > 0 {
			s.fail(from.id, "the job is at rest", strings.Join(wrong, "\n"))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found.steps += len(actions)
	s.nodes[from.id].quiet, s.nodes[from.id].rests = quiet, order == 0
	if order == 0 {
		s.found.rests++
	}
}

// add returns the number of a state. If the state is new, it is added to the frontier.
func (s *search) add(d digest, next *state, parent uint32, name string) uint32 {
	shard := &s.shards[d[0]%uint8(len(s.shards))]
	shard.Lock()
	defer shard.Unlock()
	if id, ok := shard.ids[d]; ok {
		return id
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number, ok := s.numbers[name]
	if !ok {
		number = uint16(len(s.names)) //nolint:gosec // there are few names
		s.numbers[name] = number
		s.names = append(s.names, name)
	}
	id := uint32(len(s.nodes)) //nolint:gosec // maxStates limits the number of nodes
	if int(id) >= maxStates(s.most) && s.found.wrong == "" {
		s.found.wrong = s.story(parent, name) + "there are too many states: some value grows without bound"
	}
	s.nodes = append(s.nodes, node{parent: parent, action: number})
	s.frontier = append(s.frontier, numbered{id: id, state: next})
	shard.ids[d] = id
	s.more.Signal()
	return id
}

// fail ends the search with a counterexample: the path to a state, the last step, and the violation.
func (s *search) fail(id uint32, last, wrong string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found.wrong != "" {
		return
	}
	s.found.wrong = s.story(id, last) + wrong
}

// longest is the maximum number of steps in the text that the function story returns.
const longest = 200

// story returns the numbered steps that lead to a state, followed by the last step. It leaves out the middle of a
// long list of steps.
func (s *search) story(id uint32, last string) string {
	var b strings.Builder
	path := append(s.path(id), last)
	for i, name := range path {
		if i < longest/2 || i > len(path)-longest/2 {
			fmt.Fprintf(&b, "%3d. %s\n", i+1, name)
		}
	}
	return b.String()
}

func (s *search) path(id uint32) []string {
	var path []string
	for ; id != 0; id = s.nodes[id].parent {
		path = append(path, s.names[s.nodes[id].action])
	}
	path = append(path, s.names[s.nodes[0].action])
	slices.Reverse(path)
	return path
}

// checkQuiet checks that the job comes to rest from every state if no more faults happen.
func (s *search) checkQuiet() {
	const unknown, onTheWay, arrives = 0, 1, 2
	marks := make([]byte, len(s.nodes))
	for start := range uint32(len(s.nodes)) { //nolint:gosec // maxStates limits the number of nodes
		var way []uint32
		id := start
		for marks[id] == unknown && !s.nodes[id].rests {
			marks[id] = onTheWay
			way = append(way, id)
			id = s.nodes[id].quiet
		}
		if marks[id] == onTheWay {
			s.fail(id, "the steps repeat forever", "the job never comes to rest, although no more faults happen")
			return
		}
		marks[id] = arrives
		for _, passed := range way {
			marks[passed] = arrives
		}
	}
}
