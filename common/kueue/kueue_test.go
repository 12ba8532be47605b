package kueue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	"tensorstack.dev/jobs/common/framework"
)

// template returns a template with one container. The arguments are the requests of the container: the name of each
// resource is followed by the quantity.
func template(requests ...string) *corev1.PodTemplateSpec {
	list := corev1.ResourceList{}
	for i := 0; i < len(requests); i += 2 {
		list[corev1.ResourceName(requests[i])] = resource.MustParse(requests[i+1])
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: "image", Resources: corev1.ResourceRequirements{Requests: list},
	}}}}
}

func TestPodSets(t *testing.T) {
	t.Parallel()
	placeholder := func(requests ...string) []corev1.Container {
		c := template(requests...).Spec.Containers[0]
		c.Name, c.Image, c.RestartPolicy = "t9k-sidecar", "t9k-sidecar", new(corev1.ContainerRestartPolicyAlways)
		return []corev1.Container{c}
	}
	for name, tc := range map[string]struct {
		template *corev1.PodTemplateSpec
		silent   bool // the job does not report its progress
		want     []corev1.Container
	}{
		"a pod that is BestEffort has a sidecar without requests": {template: template()},
		"the sidecar requests a resource that the template requests": {
			template: template("cpu", "1"), want: placeholder("cpu", "100m"),
		},
		"the sidecar requests CPU and memory if the template requests both": {
			template: template("cpu", "1", "memory", "1Gi"), want: placeholder("cpu", "100m", "memory", "64Mi"),
		},
		"the sidecar does not request GPUs":                       {template: template("nvidia.com/gpu", "1")},
		"a job without progress has the requests of its template": {template: template("cpu", "1"), silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.template.DeepCopy()
			roles := []framework.Role{
				{Type: "master", Replicas: 0, Template: tc.template}, {Type: "worker", Replicas: 3, Template: tc.template},
			}
			spec := framework.JobSpec{Roles: roles, ReportsProgress: !tc.silent}
			got := PodSets(spec, roles, corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			})
			want := before.DeepCopy()
			want.Spec.RestartPolicy = corev1.RestartPolicyNever
			want.Spec.InitContainers = tc.want
			index := &kueuev1beta2.TopologyRequest{PodIndexLabel: new(batchv1beta1.LabelReplicaIndex)}
			sets := []kueuev1beta2.PodSet{{Name: "worker", Count: 3, Template: *want, TopologyRequest: index}}
			if diff := cmp.Diff(sets, got); diff != "" {
				t.Errorf("unexpected pod sets (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.template); diff != "" {
				t.Errorf("the template of the job changes (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAnElasticJobOfOneTypeCanBeAdmittedWithFewerReplicas(t *testing.T) {
	t.Parallel()
	elastic := func(least int32) *batchv1beta1.ElasticConfig {
		return &batchv1beta1.ElasticConfig{Enabled: true, MinReplicas: &least, MaxReplicas: new(int32(4))}
	}
	for name, tc := range map[string]struct {
		masters int32
		elastic *batchv1beta1.ElasticConfig
		want    *int32
	}{
		"a job that is not elastic needs all replicas":          {},
		"an elastic job needs minReplicas":                      {elastic: elastic(2), want: new(int32(2))},
		"an elastic job at its minimum needs all replicas":      {elastic: elastic(3)},
		"an elastic job of two types needs all of its replicas": {masters: 1, elastic: elastic(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sets := PodSets(framework.JobSpec{Elastic: tc.elastic}, []framework.Role{
				{Type: "master", Replicas: tc.masters, Template: template()}, {Type: "worker", Replicas: 3, Template: template()},
			}, nil)
			if diff := cmp.Diff(tc.want, sets[len(sets)-1].MinCount); diff != "" {
				t.Errorf("unexpected minCount (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	limited := template()
	limited.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("2")}
	renamed := template("cpu", "1")
	renamed.Spec.Containers[0].Name = "other"
	whole := template()
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}
	for name, tc := range map[string]struct {
		granted, wanted *corev1.PodTemplateSpec
		want            bool
	}{
		"the same requests are covered":                    {template("cpu", "1"), template("cpu", "1"), true},
		"fewer requests are covered":                       {template("cpu", "2"), template("cpu", "1"), true},
		"more of a resource is not covered":                {template("cpu", "1"), template("cpu", "2"), false},
		"another resource is not covered":                  {template("cpu", "1"), template("nvidia.com/gpu", "1"), false},
		"a limit without a request is not covered":         {template("cpu", "1"), limited, false},
		"the requests of another container are no cover":   {template("cpu", "1"), renamed, false},
		"the requests of a pod as a whole are not covered": {template("cpu", "1"), whole, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workload := &kueuev1beta2.Workload{Spec: kueuev1beta2.WorkloadSpec{
				PodSets: PodSets(framework.JobSpec{},
					[]framework.Role{{Type: "worker", Replicas: 1, Template: tc.granted}}, nil),
			}}
			roles := []framework.Role{{Type: "worker", Replicas: 1, Template: tc.wanted}, {Type: "ps", Template: limited}}
			if got := Covers(workload, roles); got != tc.want {
				t.Errorf("Covers() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestTopologyRequest(t *testing.T) {
	t.Parallel()
	index := new("batch.tensorstack.dev/replica-index")
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        *kueuev1beta2.TopologyRequest
	}{
		"a template without annotations requests no topology, but Kueue can assign one": {
			want: &kueuev1beta2.TopologyRequest{PodIndexLabel: index},
		},
		"slices can require a topology": {
			map[string]string{
				"kueue.x-k8s.io/podset-preferred-topology":      "block",
				"kueue.x-k8s.io/podset-slice-required-topology": "rack", "kueue.x-k8s.io/podset-slice-size": "2",
			},
			&kueuev1beta2.TopologyRequest{
				Preferred: new("block"), SliceTopology: new("rack"), SliceSize: new(int32(2)), PodIndexLabel: index,
			},
		},
		"pod sets can be placed together": {
			map[string]string{
				"kueue.x-k8s.io/podset-required-topology": "rack", "kueue.x-k8s.io/podset-group-name": "both",
			},
			&kueuev1beta2.TopologyRequest{Required: new("rack"), GroupName: new("both"), PodIndexLabel: index},
		},
		"a topology can be required": {
			map[string]string{"kueue.x-k8s.io/podset-required-topology": "rack"},
			&kueuev1beta2.TopologyRequest{Required: new("rack"), PodIndexLabel: index},
		},
		"a topology can be preferred": {
			map[string]string{"kueue.x-k8s.io/podset-preferred-topology": "rack"},
			&kueuev1beta2.TopologyRequest{Preferred: new("rack"), PodIndexLabel: index},
		},
		"any topology can be requested": {
			map[string]string{"kueue.x-k8s.io/podset-unconstrained-topology": "true"},
			&kueuev1beta2.TopologyRequest{Unconstrained: new(true), PodIndexLabel: index},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, topologyRequest(tc.annotations)); diff != "" {
				t.Errorf("unexpected request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckTopology(t *testing.T) {
	t.Parallel()
	const (
		slice, size    = "kueue.x-k8s.io/podset-slice-required-topology", "kueue.x-k8s.io/podset-slice-size"
		required, name = "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-group-name"
		unconstrained  = "kueue.x-k8s.io/podset-unconstrained-topology"
	)
	role := func(roleType string, replicas int32, annotations ...string) framework.Role {
		template := &corev1.PodTemplateSpec{}
		for i := 0; i < len(annotations); i += 2 {
			metav1.SetMetaDataAnnotation(&template.ObjectMeta, annotations[i], annotations[i+1])
		}
		return framework.Role{Type: roleType, Replicas: replicas, Template: template}
	}
	grouped := func(roleType string, replicas int32) framework.Role {
		return role(roleType, replicas, required, "rack", name, "all")
	}
	for test, tc := range map[string]struct {
		roles []framework.Role
		want  string
	}{
		"a template needs no annotation":   {roles: []framework.Role{role("worker", 2)}},
		"a slice has a number of replicas": {roles: []framework.Role{role("worker", 2, slice, "rack", size, "2")}},
		"a type without replicas is not checked": {
			roles: []framework.Role{role("worker", 0, slice, "rack", size, "2")},
		},
		"a size that is not a number is an error": {
			roles: []framework.Role{role("worker", 2, slice, "rack", size, "two")},
			want:  `the template of type worker: annotation kueue.x-k8s.io/podset-slice-size: "two" is not a positive number`,
		},
		"a size of 0 is an error": {
			roles: []framework.Role{role("worker", 2, slice, "rack", size, "0")}, want: `"0" is not a positive number`,
		},
		"a slice with more replicas than the type is an error": {
			roles: []framework.Role{role("worker", 2, slice, "rack", size, "3")}, want: "there are only 2 replicas",
		},
		"a slice without a size is an error": {
			roles: []framework.Role{role("worker", 2, slice, "rack")}, want: "need each other",
		},
		"a size without a topology is an error": {
			roles: []framework.Role{role("worker", 2, size, "2")}, want: "need each other",
		},
		"two topologies are an error": {
			roles: []framework.Role{role("worker", 2, required, "rack", unconstrained, "true")},
			want:  "only one of the annotations",
		},
		"a topology that is neither requested nor not requested is an error": {
			roles: []framework.Role{role("worker", 2, unconstrained, "maybe")}, want: `"maybe" is not true or false`,
		},
		"two types can be placed together if one of them has one replica": {
			roles: []framework.Role{grouped("ps", 1), grouped("worker", 2)},
		},
		"a group of three types is an error": {
			roles: []framework.Role{grouped("ps", 1), grouped("chief", 1), grouped("worker", 2)},
			want:  `the templates with annotation kueue.x-k8s.io/podset-group-name "all": a group has 2 types, and not 3`,
		},
		"a group of one type is an error": {
			roles: []framework.Role{grouped("worker", 1)}, want: "a group has 2 types, and not 1",
		},
		"two types of several replicas are an error": {
			roles: []framework.Role{grouped("ps", 2), grouped("worker", 2)}, want: "one of the types must have 1 replica",
		},
		"a group with different topologies is an error": {
			roles: []framework.Role{grouped("ps", 1), role("worker", 2, required, "block", name, "all")},
			want:  "both types must have the same annotation kueue.x-k8s.io/podset-required-topology",
		},
		"a group whose name is a number is an error": {
			roles: []framework.Role{role("worker", 1, required, "rack", name, "7")}, want: `"7" must not be a number`,
		},
		"a group without a topology is an error": {
			roles: []framework.Role{role("worker", 1, name, "all")}, want: "needs annotation",
		},
		"a group with slices is an error": {
			roles: []framework.Role{role("worker", 1, required, "rack", name, "all", slice, "host", size, "1")},
			want:  "and no slices",
		},
	} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			message := ""
			if err := CheckTopology(tc.roles); err != nil {
				message = err.Error()
			}
			if !strings.Contains(message, tc.want) || (message == "") != (tc.want == "") {
				t.Errorf("unexpected error %q, want %q", message, tc.want)
			}
		})
	}
}

func TestPriorityOf(t *testing.T) {
	t.Parallel()
	classes := []schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100},
		{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 7, GlobalDefault: true},
	}
	of := func(name string) *kueuev1beta2.PriorityClassRef {
		return &kueuev1beta2.PriorityClassRef{Group: "scheduling.k8s.io", Kind: "PriorityClass", Name: name}
	}
	named := template()
	named.Spec.PriorityClassName = "high"
	for name, tc := range map[string]struct {
		classes []schedulingv1.PriorityClass
		roles   []framework.Role
		want    Priority
	}{
		"without classes, the priority is 0": {roles: []framework.Role{{Template: template()}}},
		"a template without a class has the default class": {
			classes, []framework.Role{{Template: template()}}, Priority{7, of("usual")},
		},
		"the first class of a template applies": {
			classes, []framework.Role{{Template: template()}, {Template: named}}, Priority{100, of("high")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, PriorityOf(tc.roles, tc.classes)); diff != "" {
				t.Errorf("unexpected priority (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecorate(t *testing.T) {
	t.Parallel()
	spot := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists}
	checked := corev1.Toleration{Key: "checked", Operator: corev1.TolerationOpExists}
	workload := &kueuev1beta2.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: "job", UID: "workload-uid"},
		Spec:       kueuev1beta2.WorkloadSpec{QueueName: "lab"},
		Status: kueuev1beta2.WorkloadStatus{
			Admission: &kueuev1beta2.Admission{
				ClusterQueue: strings.Repeat("long", 16),
				PodSetAssignments: []kueuev1beta2.PodSetAssignment{
					{Name: "master", Flavors: map[corev1.ResourceName]string{"cpu": "other"}},
					{
						Name:               "worker",
						Flavors:            map[corev1.ResourceName]string{"cpu": "spot", "memory": "spot", "nvidia.com/gpu": "a100"},
						TopologyAssignment: &kueuev1beta2.TopologyAssignment{},
					},
				},
			},
			AdmissionChecks: []kueuev1beta2.AdmissionCheckState{{PodSetUpdates: []kueuev1beta2.PodSetUpdate{
				{Name: "worker", NodeSelector: map[string]string{"request": "7"}, Tolerations: []corev1.Toleration{checked}},
				{Name: "master", Labels: map[string]string{"not": "ours"}},
			}}},
		},
	}
	flavors := map[string]kueuev1beta2.ResourceFlavorSpec{
		"spot":  {NodeLabels: map[string]string{"capacity": "spot"}, Tolerations: []corev1.Toleration{spot}},
		"a100":  {NodeLabels: map[string]string{"gpu": "a100"}},
		"other": {NodeLabels: map[string]string{"capacity": "other"}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kept": "yes"}},
		Spec:       corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}},
	}
	Decorate(pod, workload, "worker", flavors)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{
				"kept": "yes", "kueue.x-k8s.io/podset": "worker", "batch.tensorstack.dev/admitted-by": "workload-uid",
				"kueue.x-k8s.io/local-queue-name": "lab",
			},
			Annotations: map[string]string{
				"kueue.x-k8s.io/workload": "job", "kueue.x-k8s.io/podset-unconstrained-topology": "true",
			},
		},
		Spec: corev1.PodSpec{
			NodeSelector:    map[string]string{"zone": "a", "capacity": "spot", "gpu": "a100", "request": "7"},
			Tolerations:     []corev1.Toleration{spot, checked},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/topology"}},
		},
	}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("unexpected pod (-want +got):\n%s", diff)
	}
}

func TestSetPodsReady(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	// Each step calls SetPodsReady with the value in the field ready. After that, the condition has the status and the
	// reason in the field want.
	steps := []struct {
		ready bool
		want  string
	}{
		{true, "True Started"},
		{true, "True Started"},
		{false, "False WaitForRecovery"},
		{false, "False WaitForRecovery"},
		{true, "True Recovered"},
		{false, "False WaitForRecovery"},
		{true, "True Recovered"},
	}
	workload := &kueuev1beta2.Workload{}
	SetPodsReady(workload, false, now)
	if len(workload.Status.Conditions) > 0 {
		t.Errorf("a Workload whose pods have not been ready has conditions: %v", workload.Status.Conditions)
	}
	for i, step := range steps {
		SetPodsReady(workload, step.ready, now)
		condition := workload.Status.Conditions[0]
		if got := string(condition.Status) + " " + condition.Reason; got != step.want {
			t.Errorf("after step %d, the condition is %s, want %s", i, got, step.want)
		}
	}
}

// When an admission ends, ClearAdmission adds the duration of the admission to the total of the earlier admissions.
// Kueue ends a Workload if this total exceeds the maximum time of the Workload.
func TestClearAdmissionCountsTheTimeOfTheAdmission(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	workload := &kueuev1beta2.Workload{
		Status: kueuev1beta2.WorkloadStatus{AccumulatedPastExecutionTimeSeconds: new(int32(10))},
	}
	set(workload, kueuev1beta2.ConditionAdmitted, true, "Admitted", "", now.Add(-90*time.Second))
	set(workload, kueuev1beta2.ConditionEvicted, true, kueuev1beta2.ReasonPreempted, "", now)
	for range 2 { // the second call adds no time, because the Workload is no longer admitted
		ClearAdmission(workload, now)
		if got := *workload.Status.AccumulatedPastExecutionTimeSeconds; got != 100 {
			t.Errorf("the Workload was admitted for %d s, want 100", got)
		}
	}
}

func TestNeedsReclaimed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replicas, admitted, reclaimed, done int32
		want                                bool
	}{
		"a job whose replicas run needs no more quota":                {replicas: 3, admitted: 3},
		"a job goes on without the replica that was given back":       {replicas: 3, admitted: 3, reclaimed: 1, done: 1},
		"more replicas can have ended than were given back":           {replicas: 3, admitted: 3, reclaimed: 1, done: 2},
		"a replica that was given back runs again":                    {replicas: 3, admitted: 3, reclaimed: 1, want: true},
		"an elastic job has removed the replica that was given back":  {replicas: 2, admitted: 3, reclaimed: 1},
		"an elastic job is scaled up after a replica was given back":  {replicas: 3, admitted: 3, reclaimed: 1, want: true},
		"an elastic job creates no more replicas than are admitted":   {replicas: 5, admitted: 3, reclaimed: 1, done: 1},
		"an elastic job that is not admitted as a whole starts again": {replicas: 5, admitted: 3, reclaimed: 1, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workload := &kueuev1beta2.Workload{
				Spec: kueuev1beta2.WorkloadSpec{PodSets: []kueuev1beta2.PodSet{{Name: "worker", Count: 5}}},
				Status: kueuev1beta2.WorkloadStatus{
					Admission: &kueuev1beta2.Admission{
						PodSetAssignments: []kueuev1beta2.PodSetAssignment{{Name: "worker", Count: &tc.admitted}},
					},
					ReclaimablePods: []kueuev1beta2.ReclaimablePod{{Name: "worker", Count: tc.reclaimed}},
				},
			}
			roles := []framework.Role{{Type: "worker", Replicas: tc.replicas}}
			if got := NeedsReclaimed(workload, roles, map[string]int32{"worker": tc.done}); got != tc.want {
				t.Errorf("NeedsReclaimed is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestReclaim(t *testing.T) {
	t.Parallel()
	sets := []kueuev1beta2.PodSet{{Name: "worker", Count: 4}, {Name: "ps", Count: 1}}
	for name, tc := range map[string]struct {
		before []kueuev1beta2.ReclaimablePod
		spent  map[string]int32
		want   []kueuev1beta2.ReclaimablePod
	}{
		"nothing is reclaimed while every replica can run": {},
		"a replica that never runs again is reclaimed": {
			spent: map[string]int32{"worker": 1}, want: []kueuev1beta2.ReclaimablePod{{Name: "worker", Count: 1}},
		},
		"a number never decreases": {
			before: []kueuev1beta2.ReclaimablePod{{Name: "worker", Count: 3}}, spent: map[string]int32{"worker": 1},
			want: []kueuev1beta2.ReclaimablePod{{Name: "worker", Count: 3}},
		},
		"no more replicas are reclaimed than are requested": {
			spent: map[string]int32{"ps": 2}, want: []kueuev1beta2.ReclaimablePod{{Name: "ps", Count: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			workload := &kueuev1beta2.Workload{
				Spec:   kueuev1beta2.WorkloadSpec{PodSets: sets},
				Status: kueuev1beta2.WorkloadStatus{ReclaimablePods: tc.before},
			}
			Reclaim(workload, tc.spent)
			if diff := cmp.Diff(tc.want, workload.Status.ReclaimablePods); diff != "" {
				t.Errorf("unexpected numbers (-want +got):\n%s", diff)
			}
		})
	}
}
