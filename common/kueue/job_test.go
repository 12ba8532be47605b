package kueue

import (
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
