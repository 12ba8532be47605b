package loop

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"tensorstack.dev/jobs/common/report"
)

// Tell emits an event of an object and logs it. Call Tell only after the change that the event reports was written.
// The log line contains the given facts, which describe the object, and the facts of the event. The logger of the
// context already has the kind, the namespace and the name of the object.
func Tell(ctx context.Context, recorder events.EventRecorder, object runtime.Object, e report.Event, facts ...any) {
	recorder.Eventf(object, nil, e.Type, e.Reason, e.Action, "%s", report.Truncated(e.Message, report.MaxNote))
	log.FromContext(ctx).Info(e.Reason, append(slices.Clip(facts), e.Facts...)...)
}
