package controller

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestSooner(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before, wait, want time.Duration
	}{
		"a result without a requeue gets one":     {wait: time.Minute, want: time.Minute},
		"an earlier requeue replaces a later one": {before: time.Hour, wait: time.Minute, want: time.Minute},
		"a later requeue is ignored":              {before: time.Second, wait: time.Minute, want: time.Second},
		"a time in the past requeues immediately": {wait: -time.Minute, want: time.Millisecond},
		"no wait requeues immediately":            {want: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diff(t, "result", reconcile.Result{RequeueAfter: tc.want},
				sooner(reconcile.Result{RequeueAfter: tc.before}, tc.wait))
		})
	}
}
