DOUBLE = True


class MemoryResource:
    pass


class Buffer:
    @classmethod
    def from_handle(cls, ptr, size, mr=None):
        self = cls()
        self.handle, self.size, self.memory_resource = ptr, size, mr
        return self

    def close(self, stream=None):
        if self.memory_resource is not None:
            self.memory_resource.deallocate(self.handle, self.size,
                                            stream=stream)
            self.memory_resource = None


class Device:
    _made = {}

    def __new__(cls, number=0):
        if number not in cls._made:
            cls._made[number] = super().__new__(cls)
        return cls._made[number]

    def allocate(self, size, stream=None):
        return self.memory_resource.allocate(size, stream=stream)

    def create_stream(self):
        import weir

        return weir.Stream()

    def set_current(self):
        pass
