package control

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Event is something that happened to an object, which its user is told of by an event and who runs the controller by a line of the log.
type Event struct {
	// Type, Reason and Action are those of the event. The reason is also the message of the line.
	Type, Reason, Action string
	// Message is for the user alone, who may read the object. It may quote what a program printed, or what the API server says of a template,
	// and either may hold a secret: so it never gets into the log.
	Message string
	// Facts are what the log says of it, as keys and values.
	Facts []any
}

// Tell tells of an event, once what it speaks of is written. The facts given are those of the object; the context has the logger, with its
// kind, namespace and name.
func Tell(ctx context.Context, recorder events.EventRecorder, object runtime.Object, e Event, facts ...any) {
	recorder.Eventf(object, nil, e.Type, e.Reason, e.Action, "%s", Truncated(e.Message, MaxNote))
	log.FromContext(ctx).Info(e.Reason, append(slices.Clip(facts), e.Facts...)...)
}
