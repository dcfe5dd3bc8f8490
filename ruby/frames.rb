# Frames between the server and this process, and the requests that they carry (docs/backend-protocol.md).

module Tsubame
  HANDLER, ENVIRONMENT, INPUT, OUTPUT, ERROR, LOG, FINISH = *1..7

  # The longest content of a frame, in bytes.
  CONTENT_MAX = 1 << 20
  # How much is read at once. Most requests are shorter.
  PIECE = 1 << 16

  # The server has closed the connection: nobody waits for the response any more. No error of an application, which it could
  # rescue.
  class Gone < Exception
  end

  # A connection to the server, and the request that it carries at the moment.
  class Connection
    def initialize(socket)
      @socket = socket
      # What has arrived; what was used of it ends at @at.
      @buffer = "".b
      @at = 0
      # Whether more of the body may come.
      @open = false
    end

    # Waits for a request. Returns its environment, names and values in turn.
    def request
      body while @open
      fields = content_of(ENVIRONMENT).split("\0", -1)
      fields.pop
      @open = true
      fields
    end

    # The next piece of the body; nil at its end.
    def body
      return nil unless @open
      content = content_of(INPUT)
      @open = !content.empty?
      content if @open
    end

    # Sends data of any length as frames of a type.
    def write(kind, data)
      if data.bytesize <= CONTENT_MAX
        send([kind, data.bytesize].pack("NN"), data)
      else
        (0...data.bytesize).step(CONTENT_MAX) { |start| write(kind, data.byteslice(start, CONTENT_MAX)) }
      end
    end

    # Sends the beginning of a file as output: the kernel copies it. The length has been told, so a file that shrinks
    # meanwhile ends the connection.
    def write_file(file, length)
      while length > 0
        count = [length, CONTENT_MAX].min
        send([OUTPUT, count].pack("NN"))
        raise Gone unless IO.copy_stream(file, @socket, count) == count
        length -= count
      end
    rescue SystemCallError
      raise Gone
    end

    # Sends the last output of a response, and the frame END with these fields.
    def finish(output, **fields)
      content = { status: 0, **fields }.map { |name, value| "#{name}\0#{value}\0" }.join.b
      last = [FINISH, content.bytesize].pack("NN") + content
      if output.empty?
        send(last)
      elsif output.bytesize <= CONTENT_MAX
        send([OUTPUT, output.bytesize].pack("NN"), output, last)
      else
        write(OUTPUT, output)
        send(last)
      end
    end

    private

    def send(*parts)
      @socket.write(*parts)
    rescue SystemCallError, IOError
      raise Gone
    end

    # The content of the next frame of this type. Others are none of this program's business.
    def content_of(kind)
      loop do
        need(8)
        found, length = @buffer.byteslice(@at, 8).unpack("NN")
        raise Gone if length > CONTENT_MAX
        @at += 8
        need(length)
        content = @buffer.byteslice(@at, length)
        @at += length
        return content if found == kind
      end
    end

    # Reads until so many unused bytes are there.
    def need(length)
      return if @buffer.bytesize - @at >= length
      @buffer = @buffer.byteslice(@at..-1)
      @at = 0
      @buffer << @socket.readpartial(PIECE) while @buffer.bytesize < length
    rescue SystemCallError, IOError
      raise Gone
    end
  end
end
