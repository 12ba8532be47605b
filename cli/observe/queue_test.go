package observe

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/cli/screen"
	"tensorstack.dev/jobs/cli/screen/stories"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// TestPlaceInKueue runs against an HTTP server with the responses of Kueue 0.19, since the real Kueue in the other
// tests does not serve the visibility API.
func TestPlaceInKueue(t *testing.T) {
	t.Parallel()
	const (
		workloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/vision/workloads/sweep-7"
		pending   = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/vision/localqueues/team/pendingworkloads"
		queues    = "/apis/kueue.x-k8s.io/v1beta2/namespaces/vision/localqueues/team"

		waiting = `{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "sweep-7",
			"ownerReferences": [{"uid": "1", "controller": true}]}}`
		summary = `{"apiVersion": "visibility.kueue.x-k8s.io/v1beta2", "kind": "PendingWorkloadsSummary", "items": [
			{"metadata": {"name": "other"}, "positionInClusterQueue": 0, "positionInLocalQueue": 0},
			{"metadata": {"name": "sweep-7"}, "positionInClusterQueue": 6, "positionInLocalQueue": 1}]}`
		localQueue = `{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "team"},
			"status": {"pendingWorkloads": 12}}`
	)
	tests := map[string]struct {
		answers map[string]string
		want    sides
	}{
		"the place is that in the ClusterQueue, from 1": {
			answers: map[string]string{workloads: waiting, pending: summary, queues: localQueue},
			want:    sides{queue: &screen.Queue{Name: "team", Place: 7, Within: "of the ClusterQueue"}},
		},
		"without the visibility API, the number of waiting jobs is known": {
			answers: map[string]string{workloads: waiting, queues: localQueue},
			want:    sides{queue: &screen.Queue{Name: "team", Waiting: 12}},
		},
		"a user who may read only the Workload sees the name of the queue": {
			answers: map[string]string{workloads: waiting},
			want:    sides{queue: &screen.Queue{Name: "team"}},
		},
		"an admitted job has no place": {
			answers: map[string]string{workloads: `{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
				"metadata": {"ownerReferences": [{"uid": "1", "controller": true}]}, "status": {"conditions": [{"type": "Admitted", "status": "True"}]}}`},
			want: sides{queue: &screen.Queue{Name: "team", Admitted: true}},
		},
		"the Workload of another job of the same name has no place": {
			answers: map[string]string{workloads: `{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
				"metadata": {"ownerReferences": [{"uid": "2", "controller": true}]},
				"status": {"conditions": [{"type": "Admitted", "status": "True"}]}}`},
			want: sides{queue: &screen.Queue{Name: "team"}},
		},
		"a user who may not read the Workload gets a remark": {
			want: sides{
				queue: &screen.Queue{Name: "team"}, missing: []string{"queue (no permission to read them)"},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				answer, ok := test.answers[r.URL.Path]
				if !ok {
					w.WriteHeader(http.StatusForbidden)
					answer = `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}`
				}
				_, _ = w.Write([]byte(answer))
			}))
			defer server.Close()
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(kueuev1beta2.GroupVersion.WithKind("Workload"), meta.RESTScopeNamespace)
			mapper.Add(kueuev1beta2.GroupVersion.WithKind("LocalQueue"), meta.RESTScopeNamespace)
			mapper.Add(visibility.WithKind("LocalQueue"), meta.RESTScopeNamespace)
			scheme, err := jobs.Scheme()
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.New(&rest.Config{Host: server.URL}, client.Options{Mapper: mapper, Scheme: scheme})
			if err != nil {
				t.Fatal(err)
			}
			job := story(t, "image-pull")
			job.SetName("sweep-7")
			job.SetLabels(map[string]string{kueuev1beta2.LabelQueueName: "team"})
			got := readSides(t.Context(), c, job)
			got.isRead, got.state = false, ""
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(sides{})); diff != "" {
				t.Errorf("the objects beside the job differ (-want +got):\n%s", diff)
			}
		})
	}
}

// story returns the job of the story with the given name. A story is a job in a typical situation.
func story(t *testing.T, name string) jobs.Job {
	t.Helper()
	for _, s := range stories.All() {
		if s.Name == name {
			return s.Snapshot.Job
		}
	}
	t.Fatalf("there is no story %q", name)
	return jobs.Job{}
}

func TestPlaceInQueue(t *testing.T) {
	t.Parallel()
	group := func(
		name string, priority int32, age int64, queue string, conditions ...metav1.Condition,
	) schedulerv1beta1.PodGroup {
		return schedulerv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "vision", Name: name, CreationTimestamp: metav1.Unix(1e9-age, 0),
				OwnerReferences: []metav1.OwnerReference{{UID: "2", Controller: new(true)}},
			},
			Spec:   schedulerv1beta1.PodGroupSpec{Queue: queue, Priority: &priority},
			Status: schedulerv1beta1.PodGroupStatus{Conditions: conditions},
		}
	}
	inNamespace := func(name string, g schedulerv1beta1.PodGroup) schedulerv1beta1.PodGroup {
		g.Namespace = name
		return g
	}
	own := func(g schedulerv1beta1.PodGroup) schedulerv1beta1.PodGroup {
		g.OwnerReferences[0].UID = "1" // the UID of the job
		return g
	}
	scheduled := metav1.Condition{Type: schedulerv1beta1.ConditionGroupScheduled, Status: metav1.ConditionTrue}
	tests := map[string]struct {
		groups []schedulerv1beta1.PodGroup
		want   screen.Queue
	}{
		"groups of a higher priority are before the job, and then older ones": {
			groups: []schedulerv1beta1.PodGroup{
				own(group("own", 10, 50, "lab")), group("young", 10, 40, "lab"), group("old", 10, 60, "lab"),
				group("high", 20, 1, "lab"), group("low", 5, 100, "lab"),
			},
			want: screen.Queue{Name: "lab", Place: 3, Waiting: 5},
		},
		"groups of the same second are released by their names, as the scheduler-controller compares them": {
			groups: []schedulerv1beta1.PodGroup{
				own(group("own", 10, 50, "lab")), inNamespace("vision-2", group("own", 10, 50, "lab")),
			},
			want: screen.Queue{Name: "lab", Place: 2, Waiting: 2},
		},
		"groups of other queues and groups on nodes do not wait": {
			groups: []schedulerv1beta1.PodGroup{
				own(group("own", 10, 50, "lab")), group("elsewhere", 50, 60, "other"), group("runs", 50, 60, "lab", scheduled),
			},
			want: screen.Queue{Name: "lab", Place: 1, Waiting: 1},
		},
		"a job on nodes is admitted": {
			groups: []schedulerv1beta1.PodGroup{own(group("own", 10, 50, "lab", scheduled)), group("other", 10, 60, "lab")},
			want:   screen.Queue{Name: "lab", Admitted: true, Waiting: 1},
		},
		"a job without a group has no place": {
			groups: []schedulerv1beta1.PodGroup{group("own", 10, 60, "lab")},
			want:   screen.Queue{Name: "lab"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := screen.Queue{Name: "lab"}
			place(&got, test.groups, story(t, "queued"))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the queue differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsageOfQueue(t *testing.T) {
	t.Parallel()
	list := func(resources ...string) corev1.ResourceList {
		all := corev1.ResourceList{}
		for i := 0; i < len(resources); i += 2 {
			all[corev1.ResourceName(resources[i])] = resource.MustParse(resources[i+1])
		}
		return all
	}
	tests := map[string]struct {
		quota, allocated corev1.ResourceList
		want             string
	}{
		"the usage of the devices of the job is shown, and not of other resources": {
			quota:     list("cpu", "96", "nvidia.com/gpu", "64", "other.com/gpu", "8"),
			allocated: list("cpu", "3", "nvidia.com/gpu", "56"),
			want:      "nvidia.com/gpu 56 of 64 used",
		},
		"without a quota for its devices, the first two resources are shown": {
			quota:     list("cpu", "96", "memory", "1Ti", "pods", "10"),
			allocated: list("cpu", "3500m"),
			want:      "cpu 3500m of 96 used, memory 0 of 1Ti used",
		},
		"a queue without a quota has no usage": {},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := schedulerv1beta1.Queue{Status: schedulerv1beta1.QueueStatus{Allocated: test.allocated}}
			if test.quota != nil {
				queue.Spec.Quota = &schedulerv1beta1.QueueQuota{Requests: test.quota}
			}
			if diff := cmp.Diff(test.want, usageOf(queue, story(t, "queued"))); diff != "" {
				t.Errorf("the usage differs (-want +got):\n%s", diff)
			}
		})
	}
}
