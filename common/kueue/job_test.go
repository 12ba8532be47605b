package kueue

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMaxTime(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]*int32{
		"": nil, "90": new(int32(90)), "0": nil, "-1": nil, "1h": nil, "4294967296": nil,
	} {
		job := &metav1.ObjectMeta{Labels: map[string]string{"kueue.x-k8s.io/max-exec-time-seconds": label}}
		if diff := cmp.Diff(want, MaxTime(job)); diff != "" {
			t.Errorf("unexpected time of the label %q (-want +got):\n%s", label, diff)
		}
	}
}

func TestOnlyAJobWithAPrebuiltWorkloadIsACopy(t *testing.T) {
	t.Parallel()
	named := map[string]string{"kueue.x-k8s.io/prebuilt-workload-name": "before"}
	origin := map[string]string{"kueue.x-k8s.io/multikueue-origin": "multikueue"}
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		wantPrebuilt        string
		want                bool
	}{
		"a job of this cluster":                   {},
		"a job of this cluster that names one":    {annotations: named, wantPrebuilt: "before"},
		"a job whose label names one":             {labels: named, wantPrebuilt: "before"},
		"a job with the label of MultiKueue only": {labels: origin},
		"a copy of a job of another cluster":      {labels: origin, annotations: named, wantPrebuilt: "before", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}
			if got := Prebuilt(job); got != tc.wantPrebuilt {
				t.Errorf("Prebuilt() = %q, want %q", got, tc.wantPrebuilt)
			}
			if got := IsCopy(job); got != tc.want {
				t.Errorf("IsCopy() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	many, first := map[string]string{}, map[string]string{}
	for i := range 20 {
		name := fmt.Sprintf("provreq.kueue.x-k8s.io/%02d", i)
		many[name] = "yes"
		if i < 16 {
			first[name] = "yes"
		}
	}
	for name, tc := range map[string]struct{ annotations, want map[string]string }{
		"a job needs no parameters": {map[string]string{"note": "mine"}, nil},
		"a parameter has the prefix of a ProvisioningRequest": {
			map[string]string{"note": "mine", "provreq.kueue.x-k8s.io/maxRunDurationSeconds": "600"},
			map[string]string{"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "600"},
		},
		"a job has at most 16 parameters": {many, first},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Parameters(tc.annotations)); diff != "" {
				t.Errorf("unexpected parameters (-want +got):\n%s", diff)
			}
		})
	}
}
