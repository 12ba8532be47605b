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

func TestQueuesThatGiveWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		priority    int32
		preemptible *bool
		other       int32
		want        bool
	}{
		"a queue with a lower priority gives way": {priority: 1, other: 2, want: true},
		"a preemptible queue with a lower priority gives way": {
			priority: 1, preemptible: new(true), other: 2, want: true,
		},
		"a queue that is not preemptible does not give way": {priority: 1, preemptible: new(false), other: 2},
		"a queue with the same priority does not give way":  {priority: 2, other: 2},
		"a queue with a higher priority does not give way":  {priority: 3, other: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := newQueue(func(s *v1beta1.QueueSpec) { s.Priority, s.Preemptible = tc.priority, tc.preemptible })
			other := newQueue(func(s *v1beta1.QueueSpec) { s.Priority = tc.other })
			if got := givesWay(queue, other); got != tc.want {
				t.Errorf("givesWay returned %t, want %t", got, tc.want)
			}
		})
	}
}

func TestPodsThatOthersCanBeEvictedFor(t *testing.T) {
	t.Parallel()
	withUID := func(uid types.UID) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.UID = uid } }
	waiting := newGroup("a", 2, newPod(withUID("one")), newPod(withUID("two")))
	for name, tc := range map[string]struct {
		queue  *v1beta1.Queue
		groups []groupView
		uid    types.UID
		want   bool
	}{
		"pods can be evicted for a pod of a waiting group": {
			queue: newQueue(nil), groups: []groupView{waiting}, uid: "one", want: true,
		},
		"no pod is evicted for a pod that is not in the group": {
			queue: newQueue(nil), groups: []groupView{waiting}, uid: "other",
		},
		"no pod is evicted for a pod whose group is gone": {
			queue: newQueue(nil), groups: []groupView{newGroup("b", 1, newPod(withUID("one")))}, uid: "one",
		},
		"no pod is evicted for a queue that is gone": {groups: []groupView{waiting}, uid: "one"},
		"no pod is evicted for a closed queue": {
			queue: newQueue(func(s *v1beta1.QueueSpec) { s.Closed = true }), groups: []groupView{waiting}, uid: "one",
		},
		"pods can be evicted for a group that fits the quota": {
			queue: newQueue(cpuQuota("3")), groups: []groupView{waiting, newGroup("b", 1, newPod(running))}, uid: "one",
			want: true,
		},
		"no pod is evicted for a group that does not fit the quota": {
			queue: newQueue(cpuQuota("2")), groups: []groupView{waiting, newGroup("b", 1, newPod(running))}, uid: "one",
		},
		"no pod is evicted for a namespace that the queue does not select": {
			queue: newQueue(nil), groups: []groupView{
				func() groupView { g := waiting; g.Selected = false; return g }(),
			}, uid: "one",
		},
		"no pod is evicted for a gated pod": {
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

// newTestExtender returns an extender for the queues "low", "high", "kept" and "unreadable", each with one group. The
// extender fails to observe the queue "unreadable".
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
			return queueView{}, errors.New("reading the cache failed")
		}
		return views[queue], nil
	})
}

// asks returns a question for an evictor in the given group. The evictees are in the group "low", in the group
// "kept", in a group that does not exist, and in no group. The question also has fields that the extender must
// ignore.
func asks(group string) string {
	return `{"evictor": {"UID": "` + group + `", "Job": "team/` + group + `", "Name": "x", "Pod": {"metadata": {"labels": {"scheduler.tensorstack.dev/queue": "high"}}}},
		"evictees": [{"UID": "1", "Job": "team/low"}, {"UID": "2", "Job": "team/kept"}, {"UID": "3", "Job": "team/gone"}, {"UID": "4", "Job": ""}]}`
}

func TestAnswersOfTheExtender(t *testing.T) {
	t.Parallel()
	handler := newTestExtender(t).handler()
	for name, tc := range map[string]struct {
		body       string
		wantStatus int
		want       []task
	}{
		"pods of a preemptible queue with a lower priority are victims": {
			body: asks("high"), wantStatus: 200, want: []task{{"1", "team/low"}},
		},
		"pods of the same queue are no victims":                     {body: asks("low"), wantStatus: 200},
		"there are no victims for a pod without a PodGroup":         {body: asks("gone"), wantStatus: 200},
		"the request fails if the queue cannot be read":             {body: asks("unreadable"), wantStatus: 500},
		"a body that is not a question of Volcano is a bad request": {body: `{"evictor": 1}`, wantStatus: 400},
		"a question with too many pods is a bad request": {
			body: `{"evictees": [{}` + strings.Repeat(",{}", maxEvictees) + `]}`, wantStatus: 400,
		},
		"a question that is too large is a bad request": {
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

// slow is the body of a question that a client never sends completely.
type slow struct {
	begun chan<- struct{}
	end   <-chan struct{}
}

func (s slow) Read([]byte) (int, error) {
	close(s.begun)
	<-s.end
	return 0, io.ErrUnexpectedEOF
}

func TestSlowClientsDoNotDelayVolcano(t *testing.T) {
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

func TestTheExtenderAnswersWhileClientsHoldAllConnections(t *testing.T) {
	t.Parallel()
	s, err := newTestExtender(t).server(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Server.ReadTimeout = time.Hour // connections are not closed by a timeout
	go func() { _ = s.Server.Serve(s.Listener) }()
	t.Cleanup(func() { _ = s.Server.Close() })
	address := s.Listener.Addr().String()
	listentest.Crowd(t, address, maxAskers)
	const post = "POST /reclaimable HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
	for name, tc := range map[string]struct {
		request string
		want    int
	}{
		"Volcano gets an answer":    {fmt.Sprintf(post, len(asks("high")), asks("high")), http.StatusOK},
		"a large header is refused": {listentest.Large(listen.MaxHeader), http.StatusRequestHeaderFieldsTooLarge},
		"other paths are not found": {listentest.Get("/"), http.StatusNotFound},
	} {
		if got := listentest.Ask(t, listentest.Dial(t, "127.0.77.1", address), tc.request); got != tc.want {
			t.Errorf("%s: got status %d, want %d", name, got, tc.want)
		}
	}
}
