package why

import (
	"regexp"
	"slices"
	"strings"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// imagePull returns the entry for an image that cannot be pulled.
func imagePull(v view, c condition) entry {
	s := v.stuck
	if s == nil || s.reason != batchv1beta1.ReasonImagePull {
		return entry{
			cause: "An image cannot be pulled: " + quote(withoutCount(c.message)) + ".",
			do:    "Check the name of the image, its registry, and the imagePullSecrets of the template.",
			next:  []step{describePod}, fix: "correct the image", see: seePending,
		}
	}
	words := registryWords(s.message)
	if words == "" {
		if event := v.eventOf(s.pod.Name, "Failed"); event != nil {
			words = registryWords(event.Message)
		}
	}
	words = strings.TrimPrefix(words, clean(s.image)+": ")
	e := entry{
		cause: "The image {image} of container {container} in pod {pod} cannot be pulled" + v.sameFor(),
		next:  []step{describePod}, see: seePending,
	}
	if words != "" {
		e.cause += ": " + words
	}
	e.cause += "."
	if s.container == waitContainer {
		e.do = "This image is the controller's own. Ask an administrator to let the namespace pull it."
		e.next = append(e.next, findController)
		return e
	}
	listSecrets := step{
		purpose: "List the secrets for registries that the namespace has",
		line:    "kubectl get secrets --field-selector type=kubernetes.io/dockerconfigjson",
	}
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool {
			return strings.Contains(strings.ToLower(words+" "+s.word), part)
		})
	}
	switch {
	case has("invalidimagename", "invalid reference format"):
		e.do = "The name is not valid. Correct it."
	case has("errimageneverpull"):
		e.do = "Its imagePullPolicy is Never, and the node does not have the image. Use another policy, or another image."
	case has("toomanyrequests", "429", "rate limit"):
		e.do = "The registry limits how often it is asked. Wait, or log in with a secret that the template names in " +
			"imagePullSecrets."
		e.next = append(e.next, listSecrets)
	case has("no such host", "i/o timeout", "connection refused", "deadline exceeded", "x509", "tls"):
		e.do = "The node cannot reach the registry. Check the name of the registry, and ask an administrator whether the " +
			"nodes may reach it."
	case has("no match for platform"):
		e.do = "The image is not for the kind of CPU that the node has. Use another image."
	case has("denied", "unauthorized", "authorization", "forbidden", "401", "403"):
		e.do = "Either there is no such image, or the registry needs a login. Check the name. For a login, create a " +
			"secret and name it in imagePullSecrets of the template."
		e.next = append(e.next, listSecrets)
	case has("not found", "manifest unknown"):
		e.do = "The registry has no image of this name and tag. Correct the name or the tag."
	default:
		e.do = "Check the name of the image, its registry, and the imagePullSecrets of the template."
		e.next = append(e.next, listSecrets)
	}
	e.fix = "correct the image"
	return e
}

// pullNoise matches the first parts of a message about an image that do not explain the problem. Such a part has, for
// example, only the name of the image.
var pullNoise = regexp.MustCompile(`^(rpc error: code = \w+ desc = |[Ff]ailed to pull and unpack image "[^"]*": |` +
	`[Ff]ailed to resolve reference "[^"]*": |[Ff]ailed to resolve image: |[Ff]ailed to pull image "[^"]*": |` +
	`[Ff]ailed to do request: |(?:Head|Get) "[^"]*": |Error response from daemon: |[Ff]ailed to copy: )+`)

// registryWords returns the part of a message about an image that explains the problem. It is empty if the message only
// repeats that the image cannot be pulled.
func registryWords(message string) string {
	message = clean(message)
	if i := strings.LastIndex(message, "ErrImagePull: "); i >= 0 {
		message = message[i+len("ErrImagePull: "):]
	}
	message = pullNoise.ReplaceAllString(message, "")
	if strings.HasPrefix(message, "Back-off pulling image") || message == "Error: ErrImagePull" ||
		message == "Error: ImagePullBackOff" {
		return ""
	}
	return quote(message)
}
