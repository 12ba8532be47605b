package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"tensorstack.dev/jobs/common/controller"
)

// machine brings one state after the other to life: with the real reconciler, on the model of the API server.
type machine struct {
	kind       kind
	clock      *testingclock.FakePassiveClock
	memory     *controller.Memory
	reconciler reconcile.Reconciler
	encoder    encoder

	// state that lives.
	state *state
	// wrong is what the last step did that no step may do.
	wrong []string

	mu sync.Mutex
	// answers that the reconcile gets, and how many of them it has got.
	answers []answer
	given   int
	// calls that it may make beyond those that are answered; next is the first that it may not.
	calls int
	next  *call
	// fault that befalls its next write.
	fault effect
	// writing says that the controller makes the change; writes counts its changes.
	writing bool
	writes  int
}

func newMachine(k kind, options controller.Options) (*machine, error) {
	m := &machine{
		kind: k, clock: testingclock.NewFakePassiveClock(birth), memory: &controller.Memory{},
		encoder: encoder{specOf: k.specOf, known: map[client.Object][]token{}},
	}
	options.Clock, options.Memory = m.clock, m.memory
	var err error
	m.reconciler, err = k.newReconciler(controller.Cluster{
		Client: exploredClient{m: m}, APIReader: exploredReader{m: m}, Events: silent{}, Metrics: prometheus.NewRegistry(),
	}, options)
	return m, err
}

// Helper implements reporter.
func (m *machine) Helper() {}

// Errorf implements reporter.
func (m *machine) Errorf(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// successor returns the state after an action, and what was wrong with that.
func (m *machine) successor(s *state, a action) (*state, []string) {
	next := *s
	m.state, m.wrong = &next, nil
	m.clock.SetTime(next.now)
	a.do(m)
	return &next, m.wrong
}

// cluster lets something happen at the API server, of which the caches are told.
func (m *machine) cluster(do func(*Cluster) error) error {
	s := m.state
	c := &Cluster{scheme: m.kind.scheme, clock: m.clock, specOf: m.kind.specOf, states: []objects{s.live}, versions: s.versions, uids: s.uids}
	c.onChange = func(_ string, before, after client.Object) {
		checkLaws(m, m.kind, c.live(), before, after)
		if m.writing {
			checkDeletion(m, m.kind, c.live().job(), before, after)
		}
		m.tell(before, after)
	}
	err := do(c)
	s.live, s.versions, s.uids = c.live(), s.versions+c.revision(), c.uids
	return err
}

// tell tells the controller's cache of a change.
func (m *machine) tell(before, after client.Object) {
	s := m.state
	object := after
	if object == nil {
		object = before
	}
	key := objectKey(m.kindName(object), client.ObjectKeyFromObject(object))
	switch {
	case s.frozen&resourceOf(object) != 0:
	case s.losing && !m.writing:
		s.losing, s.lost = false, key
	default:
		if s.lost == key {
			s.lost = ""
		}
		m.show(key, after)
	}
}

// show lets the cache hold an object, nil for none, and wakes the controller if it has to know.
func (m *machine) show(key string, object client.Object) {
	s := m.state
	before := s.cached[key]
	if before == object {
		return
	}
	s.cached = s.cached.with(key, object)
	s.dirty = s.dirty || wakes(before, object)
}

// catchUp lets the cache have all that there is of some resources.
func (m *machine) catchUp(k resources) {
	s := m.state
	s.frozen &^= k
	for _, of := range []objects{s.cached.of(k), s.live.of(k)} {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			m.show(key, s.live[key])
			if s.lost == key {
				s.lost = ""
			}
		}
	}
}

func (m *machine) kindName(object client.Object) string {
	switch resourceOf(object) {
	case pods:
		return "Pod"
	case services:
		return "Service"
	case groups:
		return "PodGroup"
	case secrets:
		return "Secret"
	default:
		return m.kind.name
	}
}

// begin lets the controller begin a reconcile and stop before its first call to the API server.
func (m *machine) begin() {
	m.state.dirty, m.state.wakeAt = false, time.Time{}
	m.goOn(nil, 0)
}

// proceed lets the controller make its next call, and stop before the one after it.
func (m *machine) proceed() {
	m.goOn(m.state.reconcile.answers, 1)
}

// goOn continues a reconcile that has got some answers, by some calls.
func (m *machine) goOn(answers []answer, calls int) {
	s := m.state
	m.answers, m.given, m.calls, m.next = slices.Clip(answers), 0, calls, nil
	m.memory.SetWaitsSince(jobKey, s.waitsSince)
	result, err := m.reconciler.Reconcile(unlogged, reconcile.Request{NamespacedName: jobKey})
	if m.next != nil {
		s.reconcile = &reconcileInProgress{answers: m.answers, next: *m.next}
		return
	}
	s.reconcile = nil
	s.waitsSince = m.memory.WaitsSince(jobKey)
	switch {
	case err != nil || result.RequeueAfter > 0 && result.RequeueAfter < time.Second:
		s.dirty = true // it tries again soon
	case result.RequeueAfter > 0:
		s.wakeAt = s.now.Add(result.RequeueAfter).Add(time.Second - 1).Truncate(time.Second)
	}
}

// startAgain ends the process of the controller and starts another, to which old objects are shown of some resources, or the live ones.
func (m *machine) startAgain(old objects, frozen resources) {
	s := m.state
	s.reconcile, s.waitsSince, s.wakeAt, s.dirty = nil, time.Time{}, time.Time{}, true
	s.losing, s.lost, s.frozen = false, "", frozen
	s.cached = s.live.of(^frozen)
	maps.Copy(s.cached, old.of(frozen))
	s.old = nil
}

// errInterrupted is what a reconcile gets that is to stop for now.
var errInterrupted = errors.New("the exploration goes on elsewhere")

// request answers a call: as before if it was made before, else by doing it.
func (m *machine) request(c call, do func() answer) answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.given < len(m.answers) {
		a := m.answers[m.given]
		if a.call != c {
			panic(fmt.Sprintf("%s was %s before: the reconcile is not deterministic", c, a.call))
		}
		m.given++
		return a
	}
	if m.calls == 0 || m.next != nil {
		if m.next == nil {
			m.next = &c
		}
		return answer{err: errInterrupted}
	}
	m.calls--
	a := m.meet(c, do)
	a.call = c
	m.answers = append(m.answers, a)
	m.given++
	return a
}

// meet makes a call, which may meet a fault.
func (m *machine) meet(c call, do func() answer) answer {
	s := m.state
	fault := m.fault
	m.fault = ""
	if fault == refuse {
		return answer{err: apierrors.NewServiceUnavailable("the API server is restarting")}
	}
	if fault == lose {
		s.frozen |= c.resource
		do()
		return answer{err: apierrors.NewTimeoutError(c.String()+": the connection was lost", 0)}
	}
	m.writing = true
	a := do()
	m.writing = false
	if c.writes() && a.err == nil {
		m.writes++
		if c.resource != groups {
			m.catchUp(c.resource) // what the process wrote, it reads; for groups it does not wait
		}
	}
	return a
}

// read answers from the cache, once a reconcile. Nothing that happens between two reads of the cache could not have happened before
// or after both.
func (m *machine) read(c call, do func() answer) answer {
	if m.given < len(m.answers) || m.next != nil {
		return m.request(c, do)
	}
	m.calls++
	return m.request(c, do)
}

// exploredClient is the client of the controller: it reads from the cache. What a reconciler does not call is not modelled.
type exploredClient struct {
	client.Client

	m *machine
}

// Scheme implements client.Client.
func (c exploredClient) Scheme() *runtime.Scheme { return c.m.kind.scheme }

// Get implements client.Reader.
func (c exploredClient) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	return c.m.get(c.m.read, func() objects { return c.m.state.cached }, key, into)
}

// List implements client.Reader.
func (c exploredClient) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	return c.m.list(c.m.read, func() objects { return c.m.state.cached }, into, options)
}

// Create implements client.Writer.
func (c exploredClient) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return c.m.write("create", object, func(cluster *Cluster) error { return cluster.create(object) }).err
}

// Delete implements client.Writer.
func (c exploredClient) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	var asked client.DeleteOptions
	asked.ApplyOptions(options)
	return c.m.write("delete", object, func(cluster *Cluster) error { return cluster.remove(object, asked) }).err
}

// Patch implements client.Writer, of PodGroups.
func (c exploredClient) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	a := c.m.write("patch", object, func(cluster *Cluster) error { return cluster.patchDependent(object, patch) })
	if a.object != nil {
		copyInto(object, a.object)
	}
	return a.err
}

// Status implements client.StatusClient.
func (c exploredClient) Status() client.SubResourceWriter { return exploredStatus{m: c.m} }

type exploredStatus struct {
	client.SubResourceWriter

	m *machine
}

// Patch implements client.SubResourceWriter.
func (w exploredStatus) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	a := w.m.write("patch", object, func(cluster *Cluster) error { return cluster.patchStatus(object, patch) })
	if a.object != nil {
		copyInto(object, a.object)
	}
	return a.err
}

// exploredReader reads from the API server itself.
type exploredReader struct {
	client.Reader

	m *machine
}

// Get implements client.Reader.
func (r exploredReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	return r.m.get(r.m.request, func() objects { return r.m.state.live }, key, into)
}

// List implements client.Reader.
func (r exploredReader) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	return r.m.list(r.m.request, func() objects { return r.m.state.live }, into, options)
}

func (m *machine) get(ask func(call, func() answer) answer, from func() objects, key client.ObjectKey, into client.Object) error {
	kind := jobs
	switch {
	case resourceOf(into) != jobs:
		kind = resourceOf(into)
	case into.GetObjectKind().GroupVersionKind().Kind == "Pod":
		kind = pods
	case into.GetObjectKind().GroupVersionKind().Kind == "Service":
		kind = services
	case into.GetObjectKind().GroupVersionKind().Kind == "PodGroup":
		kind = groups
	}
	name := map[resources]string{jobs: m.kind.name, pods: "Pod", services: "Service", groups: "PodGroup"}[kind]
	a := ask(call{verb: "get", resource: kind, key: objectKey(name, key)}, func() answer {
		found := from()[objectKey(name, key)]
		if found == nil {
			return answer{err: notFound(name, key.Name)}
		}
		return answer{object: found}
	})
	if a.err != nil {
		return a.err
	}
	found := a.object
	if partial, ok := into.(*metav1.PartialObjectMetadata); ok {
		found = metadataOf(found, partial)
	}
	copyInto(into, found)
	return nil
}

func (m *machine) list(ask func(call, func() answer) answer, from func() objects, into client.ObjectList, options []client.ListOption) error {
	a := ask(call{verb: "list", resource: pods, key: "Pod"}, func() answer {
		return answer{pods: selected(from(), options)}
	})
	pods := into.(*corev1.PodList) //nolint:forcetypeassert // a panic says that the model lacks something
	for _, pod := range a.pods {
		pods.Items = append(pods.Items, *pod)
	}
	return a.err
}

func (m *machine) write(verb string, object client.Object, do func(*Cluster) error) answer {
	c := call{verb: verb, resource: resourceOf(object), key: objectKey(m.kindName(object), client.ObjectKeyFromObject(object))}
	return m.request(c, func() answer {
		a := answer{err: m.cluster(do)}
		if verb == "patch" && a.err == nil {
			a.object = m.state.live[c.key]
		}
		return a
	})
}

// silent records no events.
type silent struct{}

// Eventf implements events.EventRecorder.
func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
