package scheduler

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"tensorstack.dev/jobs/common/api/scheduler/v1beta1"
	"tensorstack.dev/jobs/common/bounded"
	"tensorstack.dev/jobs/common/listen"
)

// Limits of requests to the extender. They are needed because any client in the cluster can send requests, and the
// extender cannot distinguish Volcano from other clients.
const (
	// maxQuestion is the maximum size, in bytes, of a question, which is a request of Volcano. A question lists the pods
	// of one node, and a pod takes about 5 KiB as JSON.
	maxQuestion = 4 << 20
	// maxEvictees is the maximum number of pods in a question. No node can have this many pods.
	maxEvictees = 1000
	// maxAskers is the maximum number of connections, each with a question in memory. The extender answers one question
	// at a time, which suffices because Volcano asks one after another.
	maxAskers = 16
)

// permit is the status of all answers. It means that Volcano may evict the victims in the answer, and no other pods.
const permit = 1

// task is a pod in a question of Volcano, with only the fields that the extender reads.
type task struct {
	UID types.UID
	// Job is the namespace and name of the pod's group. Volcano charges the resources of the pod to the queue of that
	// group. Volcano reads the group from an annotation, so the labels of the pod can name another group or queue.
	Job string
}

// question is a request of Volcano: which of the pods on a node can be evicted for a waiting pod.
type question struct {
	Evictor  task         `json:"evictor"`
	Evictees boundedTasks `json:"evictees"`
}

// boundedTasks are the evictees of a question. There can be at most maxEvictees.
type boundedTasks []task

// UnmarshalJSON implements json.Unmarshaler.
func (t *boundedTasks) UnmarshalJSON(text []byte) (err error) {
	*t, err = bounded.List[task](text, maxEvictees, "evictees")
	return err
}

// answer is the response to a question: the evictees that may be evicted.
type answer struct {
	Status  int    `json:"status"`
	Victims []task `json:"victims"`
}

// observer returns a snapshot of a queue.
type observer func(ctx context.Context, queue string) (queueView, error)

// extender is the server for Volcano's plugin extender. It decides which pods Volcano can evict, because Volcano's own
// rules for reclaiming resources are not the rules of our queues. It reads only from the cache and changes nothing.
type extender struct {
	client  client.Client
	observe observer
	// answering is full while the extender answers a question, so that it answers only one at a time.
	answering chan struct{}
}

func newExtender(c client.Client, observe observer) *extender {
	return &extender{client: c, observe: observe, answering: make(chan struct{}, 1)}
}

// server returns a server that runs in every replica of the controller, not only in the leader. It returns an error if
// it cannot listen on the address.
func (e *extender) server(ctx context.Context, address string) (*manager.Server, error) {
	listener, err := listen.TCP(ctx, address, maxAskers)
	if err != nil {
		return nil, err
	}
	return &manager.Server{
		Name: "extender", Listener: listener, Server: listen.NewServer(e.handler()),
		ShutdownTimeout: ptr.To(listen.ShutdownTimeout),
	}, nil
}

func (e *extender) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /reclaimable", e.reclaimable)
	return mux
}

func (e *extender) reclaimable(w http.ResponseWriter, r *http.Request) {
	// Questions are read concurrently, so that a slow client does not delay others.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	if err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case e.answering <- struct{}{}:
		defer func() { <-e.answering }()
	case <-r.Context().Done():
		return
	}
	var q question
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, "decoding the request of Volcano's plugin extender: "+err.Error(), http.StatusBadRequest)
		return
	}
	victims, err := e.victims(r.Context(), q)
	if err != nil {
		logf.FromContext(r.Context()).Error(err, "Cannot decide which pods may be evicted", "group", q.Evictor.Job)
		http.Error(w, "reading queues failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer{Status: permit, Victims: victims}) // fails only if the client is gone
}

// victims returns the evictees that can be evicted for the evictor. Observing a queue is expensive, and Volcano
// continuously asks about every waiting pod and every node. So victims observes the queue of the evictor last, and
// only if at least one evictee passes the other checks.
func (e *extender) victims(ctx context.Context, q question) ([]task, error) {
	queue, err := e.queueOf(ctx, q.Evictor)
	if queue == nil || err != nil {
		return nil, err
	}
	var victims []task
	for _, evictee := range q.Evictees {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		from, err := e.queueOf(ctx, evictee)
		if err != nil {
			return nil, err
		}
		if from != nil && givesWay(from, queue) {
			victims = append(victims, evictee)
		}
	}
	if len(victims) == 0 {
		return nil, nil
	}
	view, err := e.observe(ctx, queue.Name)
	if err != nil || !mayTake(view, q.Evictor) {
		return nil, err
	}
	return victims, nil
}

// queueOf returns the queue of a pod's group. Nil if the group or the queue does not exist.
func (e *extender) queueOf(ctx context.Context, t task) (*v1beta1.Queue, error) {
	namespace, name, _ := strings.Cut(t.Job, "/")
	var group v1beta1.PodGroup
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if err := e.client.Get(ctx, key, &group, client.DisableReadYourWritesConsistency); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var queue v1beta1.Queue
	err := e.client.Get(ctx, client.ObjectKey{Name: group.Spec.Queue}, &queue, client.DisableReadYourWritesConsistency)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &queue, nil
}

// givesWay reports whether pods of a queue can be evicted for pods of another queue.
func givesWay(queue, other *v1beta1.Queue) bool {
	return ptr.Deref(queue.Spec.Preemptible, true) && queue.Spec.Priority < other.Spec.Priority
}

// mayTake reports whether other pods can be evicted for the evictor. The evictor must be an ungated pod of an
// admitted group, and the pods that its group needs must fit the quota. The quota is checked here because Volcano
// itself would evict pods as long as the queue has quota of any resource left.
func mayTake(view queueView, evictor task) bool {
	for _, g := range view.Groups {
		if g.key() != evictor.Job {
			continue
		}
		if view.admission(g).Status != metav1.ConditionTrue {
			return false
		}
		_, through := g.split()
		_, waits := overQuota(quotaOf(view.Queue), view.Groups, view.Orphans)[g.key()]
		return !waits && slices.ContainsFunc(through, func(pod *corev1.Pod) bool { return pod.UID == evictor.UID })
	}
	return false
}
