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

// What anybody in the cluster may ask of the extender at once: it has no way to tell Volcano from others.
const (
	// maxQuestion is more than the pods of one node, which a question is about, take as JSON: 5 KiB each, as measured.
	maxQuestion = 4 << 20
	// maxEvictees is more than the pods that one node can have.
	maxEvictees = 1000
	// maxAskers is how many may be connected at once, each with a question in memory. One is answered at a time: Volcano
	// asks one after another.
	maxAskers = 16
)

// permit is how an answer says that the victims in it may be evicted. None of them is none.
const permit = 1

// task is what matters of a pod that Volcano tells of.
type task struct {
	UID types.UID
	// Job is the namespace and name of the pod's group as Volcano knows it, from whose queue it takes what the pod gets.
	// That is an annotation: the pod's labels may name another group, or another queue.
	Job string
}

// question is what Volcano asks: which of the pods on a node may be evicted for one that waits.
type question struct {
	Evictor  task         `json:"evictor"`
	Evictees boundedTasks `json:"evictees"`
}

// boundedTasks are those of a question, at most maxEvictees.
type boundedTasks []task

// UnmarshalJSON is part of json.Unmarshaler.
func (t *boundedTasks) UnmarshalJSON(text []byte) (err error) {
	*t, err = bounded.List[task](text, maxEvictees, "evictees")
	return err
}

// answer tells Volcano which they are.
type answer struct {
	Status  int    `json:"status"`
	Victims []task `json:"victims"`
}

// observer reads what there is of a queue.
type observer func(ctx context.Context, queue string) (queueView, error)

// extender answers the plugin of that name of Volcano, which by itself takes resources back by other rules than those
// of our queues. It answers from the cache and changes nothing.
type extender struct {
	client  client.Client
	observe observer
	// answering is full while a question is answered.
	answering chan struct{}
}

func newExtender(c client.Client, observe observer) *extender {
	return &extender{client: c, observe: observe, answering: make(chan struct{}, 1)}
}

// server returns a server for every copy of the controller, not only the one that leads. It returns an error if it
// cannot listen.
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

// read reads a question.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
}

func (e *extender) reclaimable(w http.ResponseWriter, r *http.Request) {
	// The question is read first, so that nobody waits for a peer that sends slowly.
	//attack:questions are read one by one => e.answering <- struct{}{}; body, err := read(w, r); <-e.answering
	body, err := read(w, r)
	if err != nil {
		http.Error(w, "the question cannot be read: "+err.Error(), http.StatusBadRequest)
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
		http.Error(w, "the body is not a question of Volcano's plugin extender: "+err.Error(), http.StatusBadRequest)
		return
	}
	victims, err := e.victims(r.Context(), q)
	if err != nil {
		logf.FromContext(r.Context()).Error(err, "deciding whose pods may be evicted", "group", q.Evictor.Job)
		http.Error(w, "the queues could not be read", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer{Status: permit, Victims: victims}) // who asked has gone if that fails
}

// victims returns the evictees that may be evicted. What nobody may be evicted for is not looked at more closely, since
// Volcano asks about every pod that waits, and each node, all the time.
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

// queueOf returns the queue of a pod's group, nil if there is no such group or queue.
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

// givesWay says that pods of a queue may be evicted for those of another.
func givesWay(queue, other *v1beta1.Queue) bool {
	return ptr.Deref(queue.Spec.Preemptible, true) && queue.Spec.Priority < other.Spec.Priority
}

// mayTake says that it would be of use to a pod, and right, if others were evicted for it: it is one of its group,
// which its queue has admitted, and what the group needs fits the quota. The quota is looked at here since Volcano
// would evict for a pod as long as the queue has something left of any resource.
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
