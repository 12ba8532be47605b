package control

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/common/report"
)

// Tell tells of an event, once what it speaks of is written. The facts given are those of the object; the context has
// the logger, with its kind, namespace and name.
func Tell(ctx context.Context, recorder events.EventRecorder, object runtime.Object, e report.Event, facts ...any) {
	recorder.Eventf(object, nil, e.Type, e.Reason, e.Action, "%s", report.Truncated(e.Message, report.MaxNote))
	log.FromContext(ctx).Info(e.Reason, append(slices.Clip(facts), e.Facts...)...)
}
