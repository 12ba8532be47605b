# The image of a controller, built with Docker. `make images` builds the same image without Docker.
#
#	docker build --build-arg MODULE=pytorch --build-arg VERSION="$(hack/build.sh --version pytorch)" \
#		--build-arg REVISION="$(hack/build.sh --revision pytorch)" --tag tensorstack/pytorch-controller:v0.1.0 .
ARG MODULE
FROM --platform=$BUILDPLATFORM golang:1.26.8@sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a AS build
ARG MODULE REVISION TARGETOS TARGETARCH
WORKDIR /src
COPY . .
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH hack/build.sh $MODULE /image

# The name in ENTRYPOINT cannot be a build argument.
# Written by make generate from versions.yaml, up to the next empty line.
FROM scratch AS pytorch
ENTRYPOINT ["/pytorch-controller"]
FROM scratch AS tensorflow
ENTRYPOINT ["/tensorflow-controller"]
FROM scratch AS deepspeed
ENTRYPOINT ["/deepspeed-controller"]
FROM scratch AS tensorboard
ENTRYPOINT ["/tensorboard-controller"]
FROM scratch AS scheduler
ENTRYPOINT ["/scheduler-controller"]

FROM $MODULE
ARG MODULE VERSION REVISION
LABEL org.opencontainers.image.title=$MODULE-controller \
	org.opencontainers.image.version=$VERSION \
	org.opencontainers.image.revision=$REVISION \
	org.opencontainers.image.source=https://tensorstack.dev/jobs \
	org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /image/ /
WORKDIR /
USER 65532:65532
