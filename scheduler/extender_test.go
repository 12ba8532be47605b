package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/listen"
	"tensorstack.dev/jobs/common/listen/listentest"
)

func TestWhichQueueGivesWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		priority    int32
		preemptible *bool
		other       int32
		want        bool
	}{
		"a queue of a smaller priority": {priority: 1, other: 2, want: true},
		"a queue of a smaller priority that says so": {
			priority: 1, preemptible: new(true), other: 2, want: true,
		},
		"not a queue of a smaller priority that is not preemptible": {priority: 1, preemptible: new(false), other: 2},
		"not a queue of the same priority":                          {priority: 2, other: 2},
		"not a queue of a greater priority":                         {priority: 3, other: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority, s.Preemptible = tc.priority, tc.preemptible })
			other := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = tc.other })
			if got := givesWay(queue, other); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestWhoMayTakeRoom(t *testing.T) {
	t.Parallel()
	withUID := func(uid types.UID) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.UID = uid } }
	waiting := newGroup("a", 2, newPod(withUID("one")), newPod(withUID("two")))
	for name, tc := range map[string]struct {
		queue  *v1beta1.Queue
		groups []groupView
		uid    types.UID
		want   bool
	}{
		"a pod of a group that waits": {queue: newQueue(nil), groups: []groupView{waiting}, uid: "one", want: true},
		"not a pod of another group":  {queue: newQueue(nil), groups: []groupView{waiting}, uid: "other"},
		"not a pod of a group that is gone": {
			queue: newQueue(nil), groups: []groupView{newGroup("b", 1, newPod(withUID("one")))}, uid: "one",
		},
		"nobody in a queue that is gone": {groups: []groupView{waiting}, uid: "one"},
		"nobody in a queue that is closed": {
			queue: newQueue(func(s *v1beta1.QueueSpec) { s.Closed = true }), groups: []groupView{waiting}, uid: "one",
		},
		"a group whose pods all fit a quota": {
			queue: newQueue(cpuQuota("3")), groups: []groupView{waiting, newGroup("b", 1, newPod(running))}, uid: "one",
			want: true,
		},
		"not a group of which some would not": {
			queue: newQueue(cpuQuota("2")), groups: []groupView{waiting, newGroup("b", 1, newPod(running))}, uid: "one",
		},
		"not a namespace that the queue does not take": {
			queue: newQueue(nil), groups: []groupView{
				func() groupView { g := waiting; g.Selected = false; return g }(),
			}, uid: "one",
		},
		"not a pod that is held back": {
			queue: newQueue(nil), groups: []groupView{newGroup("a", 1, newPod(gated, withUID("one")))}, uid: "one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mayTake(queueView{Queue: tc.queue, Groups: tc.groups}, task{UID: tc.uid, Job: "team/a"}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func cpuQuota(quantity string) func(*v1beta1.QueueSpec) {
	return func(s *v1beta1.QueueSpec) { s.Quota = &v1beta1.QueueQuota{Requests: cpu(quantity)} }
}

// newTestExtender knows a group of each of the queues low, high and kept, and fails to observe the queue "unreadable".
func newTestExtender(t *testing.T) *extender {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	views := map[string]queueView{}
	var objects []client.Object
	for name, spec := range map[string]v1beta1.QueueSpec{
		"low": {Priority: 1}, "high": {Priority: 2}, "kept": {Priority: 1, Preemptible: new(false)},
		"unreadable": {Priority: 2},
	} {
		queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority, s.Preemptible = spec.Priority, spec.Preemptible })
		queue.Name = name
		group := newGroup(name, 1, newPod(func(pod *corev1.Pod) { pod.UID = types.UID(name) }))
		group.Group.Spec.Queue = name
		views[name] = queueView{Queue: queue, Groups: []groupView{group}}
		objects = append(objects, queue, group.Group)
	}
	return newExtender(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), func(_ context.Context,
		queue string,
	) (queueView, error) {
		if queue == "unreadable" {
			return queueView{}, errors.New("the cache is empty")
		}
		return views[queue], nil
	})
}

// asks is what Volcano asks about a pod of a group, and pods of low and kept. It says more of pods than is read.
func asks(group string) string {
	return `{"evictor": {"UID": "` + group + `", "Job": "team/` + group + `", "Name": "x", "Pod": {"metadata": {"labels": {"scheduler.tensorstack.dev/queue": "high"}}}},
		"evictees": [{"UID": "1", "Job": "team/low"}, {"UID": "2", "Job": "team/kept"}, {"UID": "3", "Job": "team/gone"}, {"UID": "4", "Job": ""}]}`
}

func TestAnswersToVolcano(t *testing.T) {
	t.Parallel()
	handler := newTestExtender(t).handler()
	for name, tc := range map[string]struct {
		body       string
		wantStatus int
		want       []task
	}{
		"a greater queue may have pods of a smaller one that is preemptible": {
			body: asks("high"), wantStatus: 200, want: []task{{"1", "team/low"}},
		},
		"a queue may have none of its own":           {body: asks("low"), wantStatus: 200},
		"a pod of no group of ours may have none":    {body: asks("gone"), wantStatus: 200},
		"a queue that cannot be read gets no answer": {body: asks("unreadable"), wantStatus: 500},
		"what is no question gets none":              {body: `{"evictor": 1}`, wantStatus: 400},
		"nor does one of more pods than a node has": {
			body: `{"evictees": [{}` + strings.Repeat(",{}", maxEvictees) + `]}`, wantStatus: 400,
		},
		"nor does one that is too long": {
			body: `{"evictor": {"Name": "` + strings.Repeat("x", maxQuestion) + `"}}`, wantStatus: 400,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder,
				httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/reclaimable", strings.NewReader(tc.body)))
			if recorder.Code != tc.wantStatus {
				t.Fatalf("got status %d, want %d: %s", recorder.Code, tc.wantStatus, recorder.Body)
			}
			if tc.wantStatus != http.StatusOK {
				return
			}
			var got answer
			if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(answer{Status: permit, Victims: tc.want}, got); diff != "" {
				t.Errorf("unexpected answer (-want +got):\n%s", diff)
			}
		})
	}
}

// slow is the body of a question that is never sent as a whole.
type slow struct {
	begun chan<- struct{}
	end   <-chan struct{}
}

func (s slow) Read([]byte) (int, error) {
	close(s.begun)
	<-s.end
	return 0, io.ErrUnexpectedEOF
}

func TestVolcanoDoesNotWaitForAPeerThatSendsSlowly(t *testing.T) {
	t.Parallel()
	handler := newTestExtender(t).handler()
	ask := func(body io.Reader) int {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/reclaimable", body))
		return recorder.Code
	}
	begun, end := make(chan struct{}), make(chan struct{})
	var peer sync.WaitGroup
	peer.Go(func() { ask(slow{begun, end}) })
	<-begun
	if got := ask(strings.NewReader(asks("high"))); got != http.StatusOK {
		t.Errorf("got status %d, want %d", got, http.StatusOK)
	}
	close(end)
	peer.Wait()
}

func TestTheExtenderIsThereWhilePeersHoldConnections(t *testing.T) {
	t.Parallel()
	s, err := newTestExtender(t).server(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Server.ReadTimeout = time.Hour // nothing ends by itself
	go func() { _ = s.Server.Serve(s.Listener) }()
	t.Cleanup(func() { _ = s.Server.Close() })
	address := s.Listener.Addr().String()
	listentest.Crowd(t, address, maxAskers)
	const post = "POST /reclaimable HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
	for name, tc := range map[string]struct {
		request string
		want    int
	}{
		"Volcano":                       {fmt.Sprintf(post, len(asks("high")), asks("high")), http.StatusOK},
		"a peer with a large header":    {listentest.Large(listen.MaxHeader), http.StatusRequestHeaderFieldsTooLarge},
		"a peer that asks other things": {listentest.Get("/"), http.StatusNotFound},
	} {
		if got := listentest.Ask(t, listentest.Dial(t, "127.0.77.1", address), tc.request); got != tc.want {
			t.Errorf("%s: got status %d, want %d", name, got, tc.want)
		}
	}
}
